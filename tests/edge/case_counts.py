"""How many random cases a test tries."""

import os


def at_least(quick: int) -> int:
    """Return the number of random cases: `quick` of them, or more if the environment variable CASES says so."""
    return max(quick, int(os.environ.get("CASES") or 0))
