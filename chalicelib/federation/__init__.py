"""Tokens of OpenID Connect issuers: verification, claim patterns, allowed issuers and their keys."""
