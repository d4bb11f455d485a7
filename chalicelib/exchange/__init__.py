"""POST /tokens: exchanges an issuer's token for an API key or an SSH certificate."""
