"""Passwords of routes and tunnels, which visitors send with each request."""
