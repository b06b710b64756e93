"""What task authors and our own tests use in place of real servers: the fakes of both ports, and fault points in them."""
