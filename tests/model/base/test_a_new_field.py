"""A field that a kind or a module gains: the line in its stored value and in its shape is all that it takes.

Records without it show it at once, and `migrate` writes it into them while the API serves.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from chalice.app import Chalice

from chalicelib import modules
from chalicelib.edges import tcp
from chalicelib.http import middleware, registration
from chalicelib.model import migrations
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules.traffic_policy import TrafficPolicyModule
from chalicelib.model.migrations import Forms
from chalicelib.modules import traffic_policy
from chalicelib.operator import migrate
from chalicelib.resources.backends import http_response_backends
from chalicelib.schema.fields import Line, Shown
from tests import conformity
from tests.records import list_all
from tests.transports import Client, InProcess


@dataclass(frozen=True, kw_only=True)
class WithReason(HttpResponse):
    reason: str = "because"


class Reasoned(http_response_backends.Answer):
    reason: Line = "because"


class ShownReason(Reasoned, Shown):
    """A backend with a reason."""


@dataclass(frozen=True, kw_only=True)
class WithMode(TrafficPolicyModule):
    mode: str = "enforce"


class Moded(traffic_policy.TrafficPolicy):
    mode: Line = "enforce"


BACKENDS = replace(
    http_response_backends.RESOURCE, stored=WithReason, create=Reasoned, change=Reasoned, response=ShownReason
)
POLICY = replace(traffic_policy.MODULES[0], stored=WithMode, shape=Moded)
EDGES = replace(
    tcp.RESOURCE, modules=(*(module for module in modules.of(kinds.TCP_EDGES) if module.name != POLICY.name), POLICY)
)


@pytest.fixture
def client(admin: Client) -> Iterator[Client]:
    """Yield the admin at an app whose backends and traffic policies have one field more."""
    logger = logging.getLogger("tunnel_edge")
    handlers, level = logger.handlers, logger.level
    app = Chalice(app_name="throw-away", configure_logs=False)
    middleware.wrap(app)
    registration.serve(app, [BACKENDS, EDGES, POLICY])
    yield replace(admin, transport=InProcess(app), check=conformity.of_another_app)
    logger.handlers = handlers
    logger.setLevel(level)


def forms() -> Forms:
    """Return the stored type of each kind and module, with the new fields."""
    forms = migrate.forms()
    of_edges = {**forms.modules[kinds.TCP_EDGES], POLICY.name: WithMode}
    stored_types = {**forms.kinds, kinds.HTTP_RESPONSE_BACKENDS: WithReason}
    return Forms(stored_types, {**forms.modules, kinds.TCP_EDGES: of_edges})


def test_a_field_shows_in_records_without_it_and_is_written_into_them(admin: Client, client: Client) -> None:
    backend = admin.create("/backends/http_response", {"status_code": 404, "description": "old"})
    policy = {"value": '{"inbound": []}'}
    edge = admin.create("/edges/tcp", {"traffic_policy": policy})
    address, module = f"/backends/http_response/{backend['id']}", f"/edges/tcp/{edge['id']}/traffic_policy"
    expected = {**backend, "reason": "because"}
    assert client.get(address).json == expected
    assert client.get("/backends/http_response").json["backends"] == [expected]
    moded = {"enabled": True, "value": policy["value"], "mode": "enforce"}
    assert client.get(module).json == moded
    assert client.get(f"/edges/tcp/{edge['id']}").json == {**edge, "traffic_policy": moded}

    lacking = [record for record in list_all() if migrations.list_needed(record, forms())]
    assert {backend["id"], edge["id"]} <= {record["id"] for record in lacking}
    assert all(migrations.apply(record, forms()) for record in lacking)
    assert not any(migrations.list_needed(record, forms()) for record in list_all())
    assert body(backend["id"])["reason"] == "because"
    assert client.get(address).json == expected
    assert client.patch(address, {"reason": "new"}).json == {**expected, "reason": "new"}
    assert client.get(module).json == moded


def test_a_record_that_changes_while_it_is_written_is_left_to_the_next_run(admin: Client, client: Client) -> None:
    id = admin.create("/backends/http_response", {})["id"]
    (old,) = (record for record in list_all() if record["id"] == id)
    client.patch(f"/backends/http_response/{id}", {"reason": "new"})
    assert migrations.apply(old, forms()) is False
    assert body(id)["reason"] == "new"


def body(id: str) -> Any:
    (record,) = (record for record in list_all() if record["id"] == id)
    return record["body"]
