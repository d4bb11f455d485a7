"""The mutual TLS between edge hosts and gateways, and the certificates that it needs."""
