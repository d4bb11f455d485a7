"""Sessions: the decision about a request with a session, session tokens, and the keys that sign these tokens."""
