"""Conductor: the port, its client, leases, and reporting of results."""
