"""Modules as the live edge enforces them."""
