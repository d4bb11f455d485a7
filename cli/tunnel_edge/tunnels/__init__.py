"""Tunnels of `te http`, `te tls` and `te tcp`: connections to gateways, and the relay to the local server."""
