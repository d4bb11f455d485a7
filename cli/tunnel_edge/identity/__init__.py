"""Profiles, stored tokens, and sign-in."""
