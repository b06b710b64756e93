"""`perago demo`: a Spark pipeline on real servers, with a worker killed in the middle."""
