"""How the service is deployed, run here, and documented; nothing of this ships in the Lambda package."""

from pathlib import Path

ROOT = Path(__file__).parent.parent


class CommandError(Exception):
    """A command cannot be carried out; the message is one sentence for the person at the terminal."""
