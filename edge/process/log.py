"""The log of gateway and control: one JSON object a line, on stderr."""

import json
import sys
from datetime import UTC, datetime


def event(name: str, **facts: object) -> None:
    """Write one line: what happened, when, to whom."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **facts}
    print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
