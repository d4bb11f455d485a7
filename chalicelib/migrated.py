"""Records brought up to date, and what the operator is told of it meanwhile."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from chalicelib import operations
from chalicelib.model import migrations
from chalicelib.model.migrations import Forms
from chalicelib.model.user_agents import MAX_COST
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken

PAUSE = 5.0  # seconds between two reports of progress


def lines(*, applies: bool, report: Callable[[str], object], pause: float = PAUSE) -> Iterator[str]:
    """Count what lacks which step, and do them if it `applies`; yield what is to be said.

    Progress goes to `report`, at most once in a pause. Raises aws.Unavailable.
    """
    forms, total, lacking, done = operations.forms(), 0, Counter[tuple[int, str]](), Counter[bool]()
    report("Reading the table …")
    reported = time.monotonic()
    for record in migrations.records():
        total += 1
        yield from _costly(record)
        if time.monotonic() - reported >= pause:
            report(f"{total:,} records read, {sum(lacking.values()):,} steps to do, {done[True]:,} rewritten …")
            reported = time.monotonic()
        steps = migrations.lacking(record, forms)
        lacking.update((step.number, migrations.what(record)) for step in steps)
        if steps and applies:
            done[(yield from _applied(record, forms))] += 1
    counts = sorted(lacking.items())
    told = ", ".join(f"{count} of the kind {what} by step {number}" for (number, what), count in counts)
    yield f"{total} records; to be rewritten: {told or 'none'}."
    if applies:
        again = f" {done[False]} changed meanwhile: run it again." if done[False] else ""
        yield f"{done[True]} rewritten.{again}"
    elif lacking:
        yield "Nothing was changed: --apply rewrites them."


def _costly(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about a route that the edge closes, because its filter costs too much."""
    if (cost := migrations.filter_cost(record)) > MAX_COST:
        item = Item.from_record(record)
        edge = item.path.split("/")[3]
        yield (
            f"The user agent filter of {item.id}, a route of {edge} of {item.account}, takes {cost} instructions of RE2"
            f" for a byte. The edge closes the route until its owner changes the filter: at most {MAX_COST} are served."
        )


def _applied(record: Mapping[str, Any], forms: Forms) -> Generator[str, None, bool]:
    """Bring a record up to date; yield who loses a name to an older edge. Return False when it changed meanwhile."""
    try:
        return migrations.apply(record, forms)
    except Taken as taken:
        name = taken.key.value
        if tunnel := migrations.end_tunnel_at(name):
            yield f"The tunnel {tunnel} was ended: the edge {record['id']} has {name}."
            return (yield from _applied(record, forms))
        yield f"The edge {record['id']} loses {name}: another account has it. Change its hostports."
        return False
