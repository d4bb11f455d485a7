"""The command line: its wheel in an empty environment and an empty HOME, and its pure rules."""
