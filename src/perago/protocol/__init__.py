"""The rules of publication, without I/O: who may publish, what is done to the target branch, how staging branches are named."""
