"""One HTTP/1.1 client for every server: pooled connections, a deadline per request, retried reads, writes sent once."""
