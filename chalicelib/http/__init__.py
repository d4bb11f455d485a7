"""The behaviour that all endpoints share, and the only importer of Chalice."""
