"""Texts that the service seals and browsers carry: states of sign-ins, and confirmations."""
