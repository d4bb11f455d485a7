"""The drain of a gateway: its clients and held connections move to other gateways."""
