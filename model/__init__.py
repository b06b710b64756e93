"""The publication protocol as a TLA+ model, and its checks: `make model`."""
