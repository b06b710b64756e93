"""The law of publication, pure: who may publish, what is done to the target branch, what staging branches are called."""
