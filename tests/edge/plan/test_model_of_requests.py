"""What requests meet by the resources that are made, compared with the model of them, over worlds that are drawn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.model.tunnels.gateways import Gateway
from edge.plan.record_index import Record, Removed
from edge.process.settings import Settings
from edge.serving.serving import Serving
from tests.edge.drawn_worlds import GATEWAY, records, requests
from tests.edge.envoy.as_envoy import AsEnvoy
from tests.edge.model_of_requests import Records, Request, meets
from tests.edge.plan.values import NOW


def all_of(made: Serving, *worlds: Records) -> AsEnvoy:
    """Return the resources when the facts of several worlds were served, each in the place of the one before."""
    changes = {**made.start(), **made.update([Gateway(GATEWAY, "192.0.2.1", 4433)], NOW)}
    known = set[str]()
    for world in worlds:
        facts: list[Record] = [*world.tunnels.values(), *world.backends.values(), *world.authorities.values()]
        facts += world.edges.values()
        gone = known - (known := {it.id for it in facts})
        changes |= made.update([*facts, *map(Removed, sorted(gone))], NOW)
        for account in made.world.accounts():
            changes |= made.update([], NOW, made.world.set_ready(account, made.world.hosts_of_account(account)))
    return AsEnvoy(changes)


@settings(max_examples=30, deadline=None)
@given(records(), records(), st.lists(requests(), min_size=8, max_size=16))
def test_requests_meet_what_the_model_says(before: Records, world: Records, asked: list[Request]) -> None:
    edge = all_of(Serving(Settings(), "PEM"), before, world)
    assert [(it, edge.meets(it)) for it in asked] == [(it, meets(it, world)) for it in asked]
