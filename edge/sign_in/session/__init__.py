"""Sessions: what a request with a session may do, session tokens, and the keys that sign them."""
