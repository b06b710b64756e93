"""One attempt from Conductor's input to its outcome: the spine, publication, and the table of outcomes."""
