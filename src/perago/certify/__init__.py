"""`perago certify`: drives a worker of any kind through faults on real servers, and tells what held and what did not."""
