"""What one more module takes: its shape, its stored form and the declaration, as a file of `modules/` has them."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import pytest
from chalice.app import Chalice
from pydantic import Field

from chalicelib import edges, modules
from chalicelib.edges import tcp
from chalicelib.http import middleware, registration
from chalicelib.http.module import Enabled, Module
from chalicelib.model.base.records import StoredModule as StoredModule
from chalicelib.schema.fields import Domain
from tests import conformity
from tests.modules.samples import OF_EDGES
from tests.refusals import assert_invalid
from tests.transports import Client, InProcess


class DomainPolicy(Enabled):
    domains: Annotated[list[Domain], Field(max_length=3)] = []


@dataclass(frozen=True, kw_only=True)
class Stored(StoredModule):
    domains: list[str]


DOMAIN_POLICY = Module(path="/edges/tcp/{id}/domain_policy", shape=DomainPolicy, stored=Stored)


@pytest.fixture
def client(admin: Client) -> Iterator[Client]:
    """Yield the admin at an app that serves TCP edges and, beside their own modules, the seventh."""
    its_modules = (*modules.of(tcp.RESOURCE.kind), DOMAIN_POLICY)
    logger = logging.getLogger("tunnel_edge")
    handlers, level = logger.handlers, logger.level
    app = Chalice(app_name="throw-away", configure_logs=False)
    middleware.wrap(app)
    registration.serve(app, [replace(tcp.RESOURCE, modules=its_modules), *its_modules])
    yield replace(admin, transport=InProcess(app), check=conformity.of_another_app)
    logger.handlers = handlers
    logger.setLevel(level)


def test_every_edge_and_route_has_the_modules_whose_path_says_so() -> None:
    for resource in edges.load_all():
        its_own = tuple(
            module for module in modules.load_all() if module.path == f"{resource.kind.item_path}/{module.name}"
        )
        assert its_own == modules.of(resource.kind) == resource.modules
    assert {module for resource in edges.load_all() for module in resource.modules} == {*OF_EDGES}


def test_it_is_set_checked_shown_and_deleted_as_any_other(client: Client, admin: Client) -> None:
    edge = client.create("/edges/tcp", {"domain_policy": {"domains": ["a.example.com"]}})
    address, policy = f"/edges/tcp/{edge['id']}", {"enabled": True, "domains": ["a.example.com"]}
    assert edge["domain_policy"] == policy
    assert client.get(f"{address}/domain_policy").json == policy
    assert client.get("/edges/tcp").json["tcp_edges"] == [edge]
    assert "domain_policy" not in admin.get(address).json
    answer = client.patch(address, {"domain_policy": {"domains": ["x"], "colour": "red"}})
    rule = "is not accepted here; accepted: enabled, domains"
    errors = {"domain_policy.domains.0": "must be a domain, for example example.com", "domain_policy.colour": rule}
    assert_invalid(answer, errors)
    assert client.patch(address, {"domain_policy": None}).json == edge
    put = client.put(f"{address}/domain_policy", None)
    assert (put.status, put.json) == (200, {"enabled": True, "domains": []})
    assert client.delete(f"{address}/domain_policy").status == 204
    assert client.get(address).json == {**edge, "domain_policy": None}
