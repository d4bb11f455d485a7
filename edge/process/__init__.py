"""Processes: the supervisor, settings, files, the log."""
