"""Commands about the sign-in of visitors: managed OAuth applications, and the keys of the sign-in service."""
