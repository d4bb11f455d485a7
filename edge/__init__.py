"""The live edge: the records of the API, obeyed by real traffic. A process of its own, never in the Lambda package."""
