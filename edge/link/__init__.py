"""The connections from edge hosts to gateways: mutual TLS and its certificates."""
