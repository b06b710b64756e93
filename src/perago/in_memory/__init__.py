"""Both servers in memory, behind the same ports as the real clients."""
