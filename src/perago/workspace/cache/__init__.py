"""File contents and listings that this host has downloaded before."""
