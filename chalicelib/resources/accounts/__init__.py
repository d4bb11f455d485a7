"""Users, bots and API keys."""
