"""The resources that decide which visitors pass, through the API."""
