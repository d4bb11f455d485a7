"""Commands about automatic certificates."""
