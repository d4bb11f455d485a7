"""Accounts as a whole: the classes of their records, exports, deletions, and where their secrets are."""
