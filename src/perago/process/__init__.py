"""Child processes that never outlive their owner, and how processes stop."""
