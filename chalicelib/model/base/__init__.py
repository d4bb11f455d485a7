"""Parts that all stored kinds share: the table of kinds, stored types, packing, references, idempotency keys."""
