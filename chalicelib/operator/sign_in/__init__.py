"""Commands about the sign-in of visitors: managed applications, and the keys of the service."""
