"""The link between edge hosts and gateways: mutual TLS and its certificates."""
