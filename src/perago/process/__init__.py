"""Child processes that never outlive their owner, stop requests, lock files, waits and backoff."""
