"""One attempt from Conductor's input to its outcome: the transaction, publication, and outcomes."""
