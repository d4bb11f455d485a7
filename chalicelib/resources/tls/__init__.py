"""TLS certificates and certificate authorities."""
