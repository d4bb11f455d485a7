"""Local servers: `make run` with its embedded cloud, and `make cloud`."""
