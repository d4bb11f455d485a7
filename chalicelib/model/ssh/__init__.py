"""SSH: authorities, the certificates they sign within their policies, what they revoke, and credentials with ACLs."""
