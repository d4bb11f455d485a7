"""The live edge: applies the API's records to real traffic. The Lambda package does not contain this code."""
