"""Every kind of resource and every module, once through all that can be done with it, with whole bodies."""

import json
from dataclasses import asdict

import pytest

from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource
from chalicelib.model.base import kinds
from tests.contract.answers import NOT_FOUND, Bodiless
from tests.modules.samples import AUTHORITIES, BACKEND, BASE_URL, POLICIES, SAMPLES, Sample, each_module, on_a_holder
from tests.samples import BODIES, PATHS, each_editable_kind
from tests.transports import Client

# What the samples name, and where there is such a thing to put in its place.
NAMED = {BACKEND: "/backends/weighted", **dict.fromkeys(AUTHORITIES, "/certificate_authorities")}
NAMED |= dict.fromkeys(POLICIES, "/ip_policies")


def samples(client: Client, module: Module) -> list[Sample]:
    """Return the examples of a module, with addresses of the client's transport, naming what is in its account."""
    text = json.dumps([asdict(sample) for sample in SAMPLES[module.path]]).replace(BASE_URL, client.transport.base_url)
    for id, path in NAMED.items():
        if id in text:
            text = text.replace(id, client.create(path, BODIES[path](client))["id"])
    return [Sample(**sample) for sample in json.loads(text)]


def has_ports(client: Client) -> bool:
    """Tell whether the deployment has ports to reserve; elsewhere it says that it has none."""
    answer = client.post("/reserved_addrs", {})
    return answer.status == 201 or "TCP_PORTS" not in answer.json["msg"]


@each_editable_kind
def test_a_resource_is_created_read_listed_changed_and_deleted(client: Client, resource: EditableResource) -> None:
    path = PATHS[resource.kind.path](client) if resource.kind.path in PATHS else resource.kind.path
    if resource.kind is kinds.RESERVED_ADDRS and not has_ports(client):
        pytest.skip("the deployment has no TCP_PORTS: no address can be reserved")
    entry = client.create(path, BODIES[resource.kind.path](client))
    address = f"{path}/{entry['id']}"
    assert entry["uri"] == client.transport.base_url + address
    response = {**entry, **({"token": None} if "token" in entry else {})}
    assert client.get(address).json == response
    page = client.get(f"{path}?limit=100")
    assert (page.status, page.json["uri"]) == (200, client.transport.base_url + path)
    assert response in page.json[resource.kind.array]
    answer = client.patch(address, {"description": "changed", "id": entry["id"]})
    assert (answer.status, answer.json) == (200, {**response, "description": "changed"})
    Bodiless(204).check(client.delete(address))
    NOT_FOUND.check(client.get(address))


@each_module
def test_a_module_is_put_replaced_read_and_deleted(client: Client, module: Module) -> None:
    address = on_a_holder(client, module)
    for sample in reversed(samples(client, module)):
        put = client.put(address, sample.request)
        assert (put.status, put.json) == (200, sample.response)
    read = client.get(address)
    assert (read.status, read.json) == (200, put.json)
    Bodiless(204).check(client.delete(address))
    NOT_FOUND.check(client.get(address))


def test_tunnels_are_listed(client: Client) -> None:
    page = client.get(f"/tunnels?before_id=tn_{'0' * 27}")
    assert (page.status, page.json) == (
        200,
        {"tunnels": [], "uri": f"{client.transport.base_url}/tunnels", "next_page_uri": None},
    )
