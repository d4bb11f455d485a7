"""SSH: the agent, certificates, and configuration of OpenSSH."""
