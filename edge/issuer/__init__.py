"""The issuer, which orders and renews certificates of reserved domains at a CA, by ACME."""
