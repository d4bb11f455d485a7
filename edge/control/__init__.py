"""What changed in the records, what that touches, and how Envoy hears of it."""
