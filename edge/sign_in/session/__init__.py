"""Sessions: what a request may do by its session, session tokens, and checks at providers."""
