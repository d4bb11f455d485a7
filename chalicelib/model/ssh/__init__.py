"""SSH: authorities with their policies, certificates and revocations, and credentials with their ACLs."""
