"""How every endpoint behaves, whatever it serves. Only here is Chalice imported."""
