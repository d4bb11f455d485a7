"""The log of gateway and control: one JSON object a line, on stderr."""

import json
import sys
from collections import Counter
from datetime import UTC, datetime

counts: Counter[str] = Counter()  # of the events of this process, by name


def event(name: str, **facts: object) -> None:
    """Write one line: what happened, when, to whom."""
    counts[name] += 1
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **facts}
    print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
