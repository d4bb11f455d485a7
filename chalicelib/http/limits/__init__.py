"""The limits of requests, checked right after the token."""
