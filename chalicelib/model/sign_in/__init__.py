"""Sign-in of visitors at identity providers: sessions, keys of the sign-in service, and managed OAuth applications."""
