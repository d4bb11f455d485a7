"""The live edge: applies the API's records to real traffic. It is never in the Lambda package."""
