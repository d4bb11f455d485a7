"""Sessions: decisions about requests, session tokens, and the keys that sign session tokens."""
