"""The sign-in service: it signs visitors of OAuth routes in at identity providers."""
