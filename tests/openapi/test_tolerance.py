"""What is tolerated beyond the document is the list in docs/conventions.md: all of it is accepted, and no more.

That no more is accepted, every test of the suite says: each body that is accepted must be in the document or the list.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib import modules
from chalicelib.http.endpoints import Endpoint
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource
from infra.build.openapi import examples
from infra.build.openapi.names import Operation
from tests.modules.samples import OF_EDGES, SAMPLES, anywhere
from tests.samples import FRESH, Collection, each_editable_kind
from tests.tolerance import document, list_tolerated
from tests.transports import Answer, Client

PROBES = (None, "", 0)
Body = dict[str, Any]


def fields(schema: str, body: Body) -> Iterator[tuple[str, str, bool, Body]]:
    """Yield each field of a schema, and of objects in the body: schema, name, whether it is required, object."""
    words = document()["components"]["schemas"][schema]
    for name, property_schema in words["properties"].items():
        yield schema, name, name in words.get("required", ()), body
        if "allOf" in property_schema and isinstance(body.get(name), dict):
            yield from fields(property_schema["allOf"][0]["$ref"].rpartition("/")[2], body[name])


def check(client: Client, endpoint: Endpoint, path: str, body: Body) -> None:
    """Send a valid body with null, "" and 0 in each of its fields: what is tolerated is as good as absent."""

    def send(name: str) -> Answer:
        fresh = {field: FRESH[field]() for field in body.keys() & FRESH.keys() - {name}}
        return client.send(endpoint.method, path, {**body, **fresh})

    for schema, name, is_required, parent in fields(Operation.of(endpoint).request_schema, body):
        was = parent.copy()
        for value in PROBES:
            parent[name] = value
            answer = send(name)
            if answer.status >= 300 and any(
                value is tolerated_value or value == tolerated_value
                for tolerated_value in list_tolerated(schema, name, is_required)
            ):
                del parent[name]
                assert send(name).status == answer.status, (
                    f"{schema}.{name} {value!r} is to be tolerated: {answer.text}"
                )
        parent.clear()
        parent.update(was)


@each_editable_kind
def test_of_creations_and_changes_the_list_is_whole(admin: Client, resource: EditableResource) -> None:
    of_kind = Collection.of(admin, resource)
    creation, update = (
        next(endpoint for endpoint in resource.endpoints() if endpoint.method == method) for method in ("POST", "PATCH")
    )
    check(admin, creation, of_kind.path, of_kind.body())
    check(admin, update, f"{of_kind.path}/{of_kind.create()['id']}", {})


@pytest.mark.parametrize("module", OF_EDGES, ids=lambda module: module.path)
def test_of_modules_the_list_is_whole(admin: Client, module: Module) -> None:
    check(admin, module.endpoints()[0], anywhere(module), {**SAMPLES[module.path][0].request})


OTHERS = {  # modules of other kinds: where their holders are created, and how
    "ssh_certificate_authority_policy": ("/ssh_certificate_authorities", {}),
    "reserved_domain_basic_auth": ("/reserved_domains", {"domain": "guarded.example.com"}),
    "reserved_domain_ip_restriction": ("/reserved_domains", {"domain": "held.example.com"}),
    "reserved_address_ip_restriction": ("/reserved_addrs", {}),
}


@pytest.mark.parametrize("noun", OTHERS)
def test_of_modules_of_other_kinds_the_list_is_whole(admin: Client, noun: str) -> None:
    path, body = OTHERS[noun]
    (module,) = (
        module
        for module in {*modules.load_all()} - {*OF_EDGES}
        if module.home.startswith(f"{path}/") and noun.endswith(module.name)
    )
    parent_id = admin.create(path, body)["id"]
    check(admin, module.endpoints()[0], module.path.format(id=parent_id), {**examples.read()[noun]["replace"]})


def test_all_modules_of_other_kinds_are_covered() -> None:
    assert len(OTHERS) == len({*modules.load_all()} - {*OF_EDGES})


def test_of_revocations_the_list_is_whole(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}/revocations"
    serials = iter(range(1, 100))
    for name in ("ssh_user_certificate_id", "ssh_host_certificate_id", "public_key", "reason"):
        for value in list_tolerated("SSHRevocationCreate", name, is_required=False):
            assert admin.post(path, {"serial": str(next(serials)), name: value}).status == 201, (name, value)
