"""The commands of `te`, which translate their arguments into calls of the service."""
