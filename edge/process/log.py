"""The log of the edge's processes: one JSON object per line on stderr."""

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from traceback import walk_tb

GATEWAY_EVENTS = (
    "drain_began",
    "drain_ended",
    "proxy_refused",
    "sign_in_blocked",
    "sign_in_dropped",
    "sign_in_failed",
    "sign_in_refused",
    "signed_in",
    "store_away",
    "tunnel_closed",
    "lease_lost",
    "renewal_skipped",
    "tunnel_left_to_its_lease",
    "tunnel_opened",
    "usage_not_kept",
)
CONTROL_EVENTS = (
    "certificate_not_renewed",
    "certificate_unreadable",
    "certificates_unreadable",
    "change_missed",
    "edges_unreadable",
    "listing_unreadable",
    "look_failed",
    "name_failed",
    "name_rejected",
    "resource_refused",
    "special_names_failed",
    "status_unwritten",
    "trial_failed",
)
ISSUER_EVENTS = (
    "attempt_failed",
    "ca_failed",
    "certificate_issued",
    "certificate_late",
    "certificate_revoked",
    "certificate_unused",
    "order_failed",
    "renewal_information_unreadable",
    "replaced_certificate_deleted",
)
event_counts: Counter[str] = Counter()  # how often this process has logged each event, by name


def event(name: str, **fields: object) -> None:
    """Log an event with the time and `fields`. Count it in `event_counts`."""
    event_counts[name] += 1
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **fields}
    print(json.dumps(line), file=sys.stderr, flush=True)


def failure(name: str, error: Exception, **fields: object) -> None:
    """Log an event with the type of an unexpected error, and its place, for example `name_resolver.py:120`.

    The message of the error is left out, because it can contain values of a record.
    """
    raised = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)][-1:]
    at = "".join(f"{Path(file).name}:{line}" for file, line in raised)
    event(name, **fields, error=type(error).__name__, at=at)
