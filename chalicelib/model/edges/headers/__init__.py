"""Headers of requests and responses: which visitors must not send, and which routes may change."""
