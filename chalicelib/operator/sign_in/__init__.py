"""Commands about the sign-in of visitors. They manage OAuth applications, and the keys of the sign-in service."""
