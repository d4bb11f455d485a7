"""TLS certificates and certificate authorities of mutual TLS."""
