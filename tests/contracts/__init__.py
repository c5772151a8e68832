"""Every adapter of a port, held to the port's contract."""
