"""Sign-in of SSH clients: identity, limits and penalties."""
