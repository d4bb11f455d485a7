"""Serve records of edges in tests, and name what changed."""

from edge.envoy.resources import Changes, Key
from edge.plan.record_index import Update
from edge.process.settings import Settings
from edge.serving.serving import Serving
from tests.edge.plan.values import NOW


def serving(*facts: Update) -> Serving:
    """Return the served world of these records, with the certificates of all accounts loaded."""
    made = Serving(Settings(tcp_ports=range(20000, 20100)), "PEM")
    apply(made, *facts)
    return made


def apply(made: Serving, *facts: Update) -> None:
    """Apply records, and mark all certificates as loaded."""
    made.update(facts, NOW)
    for account in made.world.accounts():
        made.update((), NOW, made.world.set_ready(account, made.world.hosts_of_account(account)))
    made.take_changed_edges()


def told(changes: Changes) -> set[str]:
    """Return the names of set resources, and with a minus of removed ones; of routes without their digest."""
    return {f"{'' if it else '-'}{_named(key)}" for key, it in changes.items()}


def _named(key: Key) -> str:
    name = key.name.rpartition("/")[0] if key.kind == "routes" and "/" in key.name else key.name
    return f"{key.kind} {name}{f'[{key.part}]' if key.part else ''}"
