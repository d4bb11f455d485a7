"""Deployment, the servers of this machine, and the generated documents; nothing of this is in the Lambda package."""

from pathlib import Path

ROOT = Path(__file__).parent.parent


class CommandError(Exception):
    """A command cannot be carried out; the message is one sentence for the person at the terminal."""
