"""The command line of tunnel-edge, `te`."""

__version__ = "3.0.0"
