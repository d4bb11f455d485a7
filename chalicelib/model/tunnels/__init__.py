"""Tunnels, the gateways that serve them, their usage, and blocked networks."""
