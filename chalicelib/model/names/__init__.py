"""Names: reservations, proofs of domains, bans, and the rules for who may use a name."""
