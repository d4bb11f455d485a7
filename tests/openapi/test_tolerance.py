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
from tests.tolerance import document, tolerated
from tests.transports import Answer, Client

PROBES = (None, "", 0)
Body = dict[str, Any]


def fields(schema: str, body: Body) -> Iterator[tuple[str, str, bool, Body]]:
    """Yield each field of a schema, and of objects in the body: schema, name, whether it is required, object."""
    words = document()["components"]["schemas"][schema]
    for name, told in words["properties"].items():
        yield schema, name, name in words.get("required", ()), body
        if "allOf" in told and isinstance(body.get(name), dict):
            yield from fields(told["allOf"][0]["$ref"].rpartition("/")[2], body[name])


def check(client: Client, endpoint: Endpoint, path: str, body: Body) -> None:
    """Send a valid body with null, "" and 0 in each of its fields: what is tolerated is as good as absent."""

    def send(name: str) -> Answer:
        fresh = {field: FRESH[field]() for field in body.keys() & FRESH.keys() - {name}}
        return client.send(endpoint.method, path, {**body, **fresh})

    for schema, name, is_required, holder in fields(Operation.of(endpoint).request_schema, body):
        was = holder.copy()
        for value in PROBES:
            holder[name] = value
            answer = send(name)
            if answer.status >= 300 and any(value is it or value == it for it in tolerated(schema, name, is_required)):
                del holder[name]
                assert send(name).status == answer.status, (
                    f"{schema}.{name} {value!r} is to be tolerated: {answer.text}"
                )
        holder.clear()
        holder.update(was)


@each_editable_kind
def test_of_creations_and_changes_the_list_is_whole(admin: Client, resource: EditableResource) -> None:
    of_kind = Collection.of(admin, resource)
    created, changed = (next(it for it in resource.endpoints() if it.method == method) for method in ("POST", "PATCH"))
    check(admin, created, of_kind.path, of_kind.body())
    check(admin, changed, f"{of_kind.path}/{of_kind.one()['id']}", {})


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
        it for it in {*modules.load_all()} - {*OF_EDGES} if it.home.startswith(f"{path}/") and noun.endswith(it.name)
    )
    holder = admin.create(path, body)["id"]
    check(admin, module.endpoints()[0], module.path.format(id=holder), {**examples.read()[noun]["replace"]})


def test_all_modules_of_other_kinds_are_covered() -> None:
    assert len(OTHERS) == len({*modules.load_all()} - {*OF_EDGES})


def test_of_revocations_the_list_is_whole(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}/revocations"
    serials = iter(range(1, 100))
    for name in ("ssh_user_certificate_id", "ssh_host_certificate_id", "public_key", "reason"):
        for value in tolerated("SSHRevocationCreate", name, is_required=False):
            assert admin.post(path, {"serial": str(next(serials)), name: value}).status == 201, (name, value)
