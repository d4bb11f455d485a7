"""Texts that the service encrypts and browsers store: states of sign-ins, and confirmations."""
