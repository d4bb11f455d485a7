"""Accounts as a whole: export, import and deletion of all their records, and the encrypted values in records."""
