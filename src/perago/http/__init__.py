"""HTTP/1.1 for both servers: connections, deadlines, retried reads, writes sent once."""
