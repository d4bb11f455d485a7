"""From changes in the records to Envoy: reading them, the resources that they touch, discovery."""
