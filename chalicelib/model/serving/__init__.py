"""Decides from an account's records which edge or tunnel serves each of its names. For the live edge and for statuses."""
