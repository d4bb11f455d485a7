"""The issuer: it orders and renews certificates of reserved domains at a CA, by ACME."""
