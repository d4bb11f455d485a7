"""Accounts as a whole: which records belong to one, what leaves with it, and where its secrets are."""
