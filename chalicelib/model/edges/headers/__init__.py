"""Headers of requests and responses: those that visitors must not send, and those that routes may change."""
