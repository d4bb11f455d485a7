"""Names: reservations, proofs of domains, bans, and who may use which name."""
