"""The terminals of SSH clients, and the events that they show."""
