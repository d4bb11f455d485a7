"""Who serves each host name of an account, and how, from its records. Used by the live edge and by statuses."""
