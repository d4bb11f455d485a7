"""Audit events for other systems: one JSON object to a line, the oldest first, each once, however often it is gone on.

What is less than a minute old is left to the next export: until then a change that began earlier may still be written.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from chalicelib import clock, ids, operations
from chalicelib.model import events, kinds
from chalicelib.operations import CommandError
from chalicelib.resources import audit_events
from chalicelib.storage.items import Item

_SETTLED = 60  # seconds; longer than the gateway lets a request take


def arguments(command: ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    command.add_argument("account", help="the account's id (acct_…)")
    command.add_argument("--after", default="", metavar="WHEN", help="only events after that time (RFC 3339) or event")
    command.add_argument(
        "--into", type=Path, metavar="FILE", help="append to a file what it lacks, and mend its last line if it is cut"
    )


def export(given: Namespace) -> None:
    """Print the events of an account, or append them to a file. Raises CommandError."""
    last = _mended(given.into) if given.into else ""
    lines = _lines(given.account, _start(last or given.after))
    if not given.into:
        sys.stdout.writelines(lines)
        return
    with given.into.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def _lines(account: str, start: str) -> Iterator[str]:
    operations.check_account(account)
    end = ids.first_at(kinds.AUDIT_EVENTS.prefix, clock.seconds() - _SETTLED)
    for event in events.between(account, start, end):
        yield f"{_line(account, event)}\n"


def _line(account: str, event: Item) -> str:
    """Return an event as `GET /audit_events` shows it, with its account and, until the release after 3.0.0,
    `resource_path`. Addresses begin with BASE_URL, or with the path if it is not set.
    """
    shown = audit_events.response(event, os.environ.get("BASE_URL", "").rstrip("/"))
    own = {"account": account, "resource_path": event.body["resource_path"]}
    return json.dumps({"id": event.id, **own, **shown})


def _start(after: str) -> str:
    """Return an event's id, or the first one of a time; only what is behind it is exported. Raises CommandError."""
    if kinds.AUDIT_EVENTS.has(after):
        return after
    try:
        second = int(clock.parse(after).timestamp()) if after else 0
    except ValueError as error:
        raise CommandError(f"--after {error}, or the id of an event (evt_…).") from None
    return ids.first_at(kinds.AUDIT_EVENTS.prefix, second)


def _mended(file: Path) -> str:
    """Cut what stands behind the last whole line of a file; return the id of the event in that line, "" without one."""
    if not file.exists():
        return ""
    with file.open("r+b") as lines:
        end = lines.seek(0, os.SEEK_END)
        tail = b""
        while end and tail.count(b"\n") < 2:
            begin = max(0, end - 65536)
            lines.seek(begin)
            tail, end = lines.read(end - begin) + tail, begin
        whole = tail[: tail.rfind(b"\n") + 1]
        lines.truncate(end + len(whole))
    try:
        return str(json.loads(whole.splitlines()[-1])["id"]) if whole else ""
    except (ValueError, LookupError, TypeError):
        raise CommandError(f"The last whole line of {file} is no event: export into another file.") from None
