"""SSH authorities, certificates, revocations and credentials."""
