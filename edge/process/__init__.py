"""The supervisor, settings, files, metrics and the log of the edge's processes."""
