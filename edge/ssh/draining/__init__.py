"""The drain of a gateway: its clients, and new connections from Envoy, move to other gateways."""
