"""Deployment, local servers and generated documents. None of it is in the Lambda package."""

from pathlib import Path

ROOT = Path(__file__).parent.parent


class CommandError(Exception):
    """A command failed. The message is one sentence for the person at the terminal."""
