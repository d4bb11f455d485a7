"""The servers on this machine: `make run` with its embedded cloud, and the emulated cloud of `make cloud`."""
