"""The cache of this host: contents and listings that were downloaded before."""
