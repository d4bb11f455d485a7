"""The commands of `te`, which translate their arguments into requests to the service."""
