"""What operators do to a repository beside the workers: examine it, put a branch back, protect a branch. No terminal in here."""
