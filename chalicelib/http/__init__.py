"""The behaviour that all endpoints share. Only here is Chalice imported."""
