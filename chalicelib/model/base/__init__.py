"""What every stored kind has in common: kinds, records, packing, references, idempotency keys."""
