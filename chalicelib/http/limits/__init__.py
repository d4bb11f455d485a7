"""The limits of requests. They are checked right after the request is authenticated."""
