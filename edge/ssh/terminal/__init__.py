"""The texts in the terminals of SSH clients."""
