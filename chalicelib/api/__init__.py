"""How every endpoint behaves, whatever it offers."""
