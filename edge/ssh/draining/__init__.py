"""The drain of a gateway: its clients, and connections that wait for them, move to other gateways."""
