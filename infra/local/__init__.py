"""What runs here: the embedded cloud and the server of `make run`, and the emulated cloud of `make cloud`."""
