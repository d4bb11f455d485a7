"""Decides from an account's records which edge or tunnel serves each name. For the live edge and for statuses."""
