"""The commands: from words to calls."""
