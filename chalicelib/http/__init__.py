"""The behaviour that all endpoints share. Besides `app.py`, only this package imports Chalice."""
