"""Parts of all stored kinds: kinds, records, packing, references, idempotency keys."""
