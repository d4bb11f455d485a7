"""Names: reservations, proofs of domains, bans, and the rules that decide which account may use a name."""
