"""What a client must be able to do: create, read, change, page, be refused and delete, of every kind and every module.

What it says must be what a plain HTTP client reads: nothing is lost in a model, nothing added.
"""

import re
import time
from typing import Any

from chalicelib import modules
from chalicelib.http.endpoints import Endpoint, Routes
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource, Resource
from infra.build.openapi import examples
from tests.clients.driven import Driven
from tests.modules.samples import OF_EDGES, SAMPLES, on_a_holder
from tests.samples import KINDS, Collection
from tests.transports import Client

_ID = re.compile(r"[a-z]+_[0-9A-Za-z]{27}")
_NOBODYS = "0" * 27
_PASSWORDS = [sample.request for sample in SAMPLES["/edges/https/{edge_id}/routes/{id}/basic_auth"]]
_RESTRICTIONS = [sample.request for sample in SAMPLES["/edges/tcp/{id}/ip_restriction"]]


def check(driven: Driven, client: Client) -> None:
    """Have a client do everything; `client` is the plain one of the same key."""
    time.sleep(1)  # that key was made by another process: within one second the order of their ids is chance
    for resource in KINDS:
        if isinstance(resource, EditableResource):
            _check_kind(driven, client, resource)
        else:
            _check_list(driven, client, resource)
    for module in OF_EDGES:
        _check_module(driven, client, module)
    for module in (module for module in modules.load_all() if module not in OF_EDGES):
        _check_held(driven, client, module)


def _endpoint(routes: Routes, method: str, *, end: str = "") -> Endpoint:
    """Return the first endpoint of a kind or module with a method, whose path ends so."""
    return next(
        endpoint for endpoint in routes.endpoints() if endpoint.method == method and endpoint.path.endswith(end)
    )


def _check_kind(driven: Driven, client: Client, resource: EditableResource) -> None:
    of_list, item_path = Collection.of(client, resource), resource.kind.item_path
    parents = _ID.findall(of_list.path)
    create = _endpoint(resource, "POST")
    status, first = driven.call(create, parents, of_list.body())
    assert status == 201, first
    _, second = driven.call(create, parents, of_list.body(description="the second"))
    ids = [*parents, first["id"]]
    read = driven.call(_endpoint(resource, "GET", end=item_path), ids)
    plain = client.get(f"{of_list.path}/{first['id']}").json
    assert read == (200, plain)
    assert {**first, **({"token": None} if "token" in first else {})} == plain
    change = {**examples.read()[resource.kind.noun]["update"], "metadata": "changed"}
    changed = driven.call(_endpoint(resource, "PATCH"), ids, change)
    assert changed == (200, {**plain, **change}), changed
    _check_pages(driven, client, of_list, parents, [second["id"], first["id"]])
    _check_refusals(driven, resource, parents, ids, of_list.body(description="x" * 256))
    assert driven.call(_endpoint(resource, "DELETE"), ids) == (204, None)
    assert driven.call(_endpoint(resource, "GET", end=item_path), ids)[0] == 404


def _check_pages(driven: Driven, client: Client, of_list: Collection, parents: list[str], newest: list[str]) -> None:
    """Two pages of one entry: what the address of the second carries leads a generated client there too."""
    listing, array = of_list.resource.endpoints()[0], of_list.kind.array
    status, page = driven.call(listing, parents, limit=1)
    assert (status, page) == (200, client.get(f"{of_list.path}?limit=1").json)
    _, following = driven.call(listing, parents, limit=1, before_id=page[array][-1]["id"])
    assert [entry["id"] for entry in (*page[array], *following[array])] == newest


def _check_refusals(driven: Driven, kind: Resource, parents: list[str], ids: list[str], too_long: Any) -> None:
    status, refused = driven.call(
        _endpoint(kind, "GET", end=kind.kind.item_path), [*parents, f"{kind.kind.prefix}_{_NOBODYS}"]
    )
    assert (status, refused["error_code"], refused["status_code"]) == (404, "not_found", 404)
    status, refused = driven.call(_endpoint(kind, "POST"), parents, too_long)
    assert (status, refused["error_code"]) == (400, "invalid_request")
    assert refused["details"].keys() == {"operation_id", "description"}


def _check_list(driven: Driven, client: Client, resource: Resource) -> None:
    """Of a kind that is not changed: its list, and that there is no such one."""
    of_list = Collection.of(client, resource)
    parents = _ID.findall(of_list.path)
    status, page = driven.call(resource.endpoints()[0], parents, limit=2)
    assert (status, page) == (200, client.get(f"{of_list.path}?limit=2").json)
    for entry in page[resource.kind.array]:
        assert driven.call(_endpoint(resource, "GET", end=resource.kind.item_path), [*parents, entry["id"]]) == (
            200,
            entry,
        )
    nobodys = [*parents, f"{resource.kind.prefix}_{_NOBODYS}"]
    status, refused = driven.call(_endpoint(resource, "GET", end=resource.kind.item_path), nobodys)
    assert (status, refused["error_code"]) == (404, "not_found")


def _check_module(driven: Driven, client: Client, module: Module) -> None:
    _check_replaced(
        driven, client, module, on_a_holder(client, module), [sample.request for sample in SAMPLES[module.path]]
    )


def _check_held(driven: Driven, client: Client, module: Module) -> None:
    """Of a module of something that is not an edge or a route."""
    collection, body, requests = {
        "/ssh_certificate_authorities/{id}/policy": (
            "/ssh_certificate_authorities",
            {},
            [examples.read()["ssh_certificate_authority_policy"]["replace"], {"host": {"max_lifetime": 60}}],
        ),
        "/reserved_domains/{id}/ip_restriction": ("/reserved_domains", {"domain": "held.example.com"}, _RESTRICTIONS),
        "/reserved_addrs/{id}/ip_restriction": ("/reserved_addrs", {}, _RESTRICTIONS),
        "/reserved_domains/{id}/basic_auth": ("/reserved_domains", {"domain": "guarded.example.com"}, _PASSWORDS),
    }[module.path]
    _check_replaced(driven, client, module, module.path.format(id=client.create(collection, body)["id"]), requests)


def _set(value: Any) -> Any:
    """Return a value without what is null in it: to Go a list that is null is one that is not there."""
    if isinstance(value, dict):
        return {name: _set(field) for name, field in value.items() if field is not None}
    return [_set(entry) for entry in value] if isinstance(value, list) else value


def _check_replaced(driven: Driven, client: Client, module: Module, path: str, requests: list[Any]) -> None:
    """Set it, read it, set it to something else, take it away."""
    ids = _ID.findall(path)
    for request in requests:
        status, answer = driven.call(_endpoint(module, "PUT"), ids, request)
        assert status == 200
        assert _set(answer) == _set(client.get(path).json)
        assert driven.call(_endpoint(module, "GET"), ids) == (200, answer)
    assert driven.call(_endpoint(module, "DELETE"), ids) == (204, None)
    status, refused = driven.call(_endpoint(module, "GET"), ids)
    assert (status, refused["error_code"]) == (404, "not_found")
