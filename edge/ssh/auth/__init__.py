"""Sign-in of SSH clients: identity, bounds and penalties."""
