"""lakeFS: the port, its client, and transfers of objects."""
