"""The rules of publication, without I/O: which attempt may publish, what happens to the target branch, branch names."""
