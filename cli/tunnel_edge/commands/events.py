"""The command `te events`, which shows the audit events of the account, once or as they happen."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from tunnel_edge import output
from tunnel_edge.api.client import Client
from tunnel_edge.commands import options
from tunnel_edge.commands.options import Command

COLUMNS = ("created_at", "action", "resource_id", "actor.name", "id")
_INTERVAL = 1.0  # seconds between two requests for new events
# An event can appear in the list some seconds after its `created_at`. So each request asks for the events since
# _OVERLAP before the last event. _REMEMBERED is how many ids of printed events are stored, to print each event once.
_OVERLAP = timedelta(seconds=10)
_REMEMBERED = 20_000


@click.command(cls=Command)
@click.option("--follow", is_flag=True, help="Print new events as they happen, until Ctrl-C.")
@click.option("--actor", "actor_id", metavar="ID", help="Only events of this key, credential, user or bot.")
@click.option("--action", metavar="ACTION", help="Only events of this action, or with a prefix: 'ssh_*'.")
@click.option("--resource", "resource_id", metavar="ID", help="Only events of this resource.")
def events(follow: bool, **filters: str | None) -> None:
    """Show the newest audit events, oldest first."""
    chosen = options.chosen()
    client = chosen.open_session().client
    query = {name: value for name, value in filters.items() if value}
    events = _follow(client, query) if follow else iter(_read(client, query))
    columns = chosen.columns or COLUMNS
    if follow and chosen.shown_as == "table":
        for event in events:
            output.show_row(event, columns, utc=chosen.utc)
    else:
        shown_as = "ndjson" if follow and chosen.shown_as == "json" else chosen.shown_as
        output.show_list(events, shown_as, columns, utc=chosen.utc)


def _follow(client: Client, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield the newest events, and then each new event once."""
    events = _read(client, {**query, "limit": "10"})
    earlier_ids: deque[str] = deque(maxlen=_REMEMBERED)
    last = _read(client, {"limit": "1"})[0]["created_at"]
    while True:
        new_events = [event for event in events if event["id"] not in earlier_ids]
        earlier_ids.extend(event["id"] for event in new_events)
        last = max([last, *(event["created_at"] for event in new_events)])
        yield from new_events
        time.sleep(_INTERVAL)
        since = f"{datetime.fromisoformat(last) - _OVERLAP:%Y-%m-%dT%H:%M:%SZ}"
        pages = client.pages("/audit_events", {**query, "after": since})
        events = [event for page in pages for event in page["audit_events"]][::-1]


def _read(client: Client, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return one page of events, oldest first."""
    events: list[Mapping[str, Any]] = client.get("/audit_events", **query)["audit_events"]
    return events[::-1]
