"""Accounts, users and bots, their API keys, and switching them on and off."""
