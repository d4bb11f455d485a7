"""How the service is deployed and run; nothing of this ships in the Lambda package."""
