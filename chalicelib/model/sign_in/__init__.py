"""Sign-in of visitors at identity providers: the rules of routes, sessions, keys and managed applications."""
