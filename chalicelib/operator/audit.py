"""Commands about audit events. They list the events that belong to no account, and export an account's events.

An export prints one JSON object per line, the oldest first. It prints each event once, even if the export is continued.
Events of the last minute wait for the next export, because a change that began earlier may still write an event before
them.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from chalicelib import clock, ids
from chalicelib.model.audit import reading, trail
from chalicelib.model.base import kinds
from chalicelib.operator.accounts import check_account
from chalicelib.operator.command_line import CommandError, OperatorGroup, account_argument, json_option
from chalicelib.resources.audit import audit_events
from chalicelib.storage.records.items import Item

_SETTLED = 60  # seconds after an event until no request can still write an earlier event
_CHUNK = 65536  # bytes to read at once from the end of an export

group = OperatorGroup("audit", help="Audit events.")


@group.command("list", help="List the operator's events outside of accounts, such as blocked networks, newest first.")
@json_option
def _list(as_json: bool) -> None:
    for item in reading.read_operator_events():
        event = trail.Event.of(item.body)
        if as_json:
            print(json.dumps({"id": item.id, **event.to_record()}))
            continue
        print(event.created_at, event.actor["name"], event.action, event.resource_id, json.dumps(event.details))


@group.command("export", help="Print an account's events that are at least a minute old, the oldest first.")
@account_argument
@click.option(
    "--after",
    default="",
    metavar="WHEN",
    help="Only events after this time (RFC 3339) or after the event with this id.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file, to which the missing events are appended. An incomplete last line is replaced.",
)
def _export(account: str, after: str, into: Path | None) -> None:
    last = _repair(into) if into else ""
    lines = _read_lines(account, _start(last or after))
    if not into:
        sys.stdout.writelines(lines)
        return
    with into.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def _read_lines(account: str, start: str) -> Iterator[str]:
    check_account(account)
    end = ids.first_at(kinds.AUDIT_EVENTS.prefix, clock.seconds() - _SETTLED)
    for event in reading.read_between(account, start, end):
        yield f"{_format_line(account, event)}\n"


def _format_line(account: str, event: Item) -> str:
    """Return an event as `GET /audit_events` shows it, with `account` and `resource_path`.

    `resource_path` will be removed in the release after 3.0.0. URLs of resources begin with BASE_URL. If it is not
    set, they begin with the path.
    """
    response = audit_events.response(event, os.environ.get("BASE_URL", "").rstrip("/"))
    operator_fields = {"account": account, "resource_path": event.body["resource_path"]}
    return json.dumps({"id": event.id, **operator_fields, **response})


def _start(after: str) -> str:
    """Return the id of the event after which an export begins. Raises CommandError."""
    if kinds.AUDIT_EVENTS.has(after):
        return after
    try:
        second = int(clock.parse(after).timestamp()) if after else 0
    except ValueError as error:
        raise CommandError(f"--after {error}, or the id of an event (evt_…).") from None
    return ids.first_at(kinds.AUDIT_EVENTS.prefix, second)


def _repair(file: Path) -> str:
    """Remove an incomplete last line of an export. Return the last event's id, or "". Raises CommandError."""
    if not file.exists():
        return ""
    with file.open("r+b") as lines:
        end = lines.seek(0, os.SEEK_END)
        tail = b""
        while end and tail.count(b"\n") < 2:
            begin = max(0, end - _CHUNK)
            lines.seek(begin)
            tail, end = lines.read(end - begin) + tail, begin
        complete = tail[: tail.rfind(b"\n") + 1]
        lines.truncate(end + len(complete))
    try:
        return str(json.loads(complete.splitlines()[-1])["id"]) if complete else ""
    except (ValueError, LookupError, TypeError):
        raise CommandError(f"The last complete line of {file} is not an event: export into another file.") from None
