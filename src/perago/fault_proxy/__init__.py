"""A proxy between a client and an HTTP server that can hold, drop and record requests."""
