"""Every kind of resource, and every module, on the embedded cloud and through the HTTP server."""

from chalicelib import ids
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource
from tests.doors import Client
from tests.modules.samples import SAMPLES, anywhere, each_module
from tests.samples import BODIES, PATHS, each_editable_kind


@each_editable_kind
def test_it_is_created_read_listed_changed_and_deleted(http: Client, resource: EditableResource) -> None:
    path = PATHS[resource.kind.path](http) if resource.kind.path in PATHS else resource.kind.path
    created = http.create(path, BODIES[resource.kind.path](http))
    address = f"{path}/{created['id']}"
    read = http.get(address)
    assert read.json == {**created, **({"token": None} if "token" in created else {})}
    assert read.json in http.get(f"{path}?limit=100").json[resource.kind.array]
    changed = http.patch(address, {"description": "changed"})
    assert (changed.status, changed.json) == (200, {**read.json, "description": "changed"})
    deleted = http.delete(address)
    assert (deleted.status, deleted.text) == (204, "")
    assert http.get(address).status == 404


@each_module
def test_it_is_put_read_and_deleted(http: Client, module: Module) -> None:
    address = anywhere(module)
    put = http.put(address, SAMPLES[module.path][0].asked)
    assert put.status == 200
    assert http.get(address).json == put.json
    assert http.delete(address).status == 204
    assert http.get(address).status == 404


def test_there_is_nothing_online_where_no_tunnel_was_opened(http: Client) -> None:
    assert http.get("/tunnels").status == 200
    assert http.get(f"/tunnels/{ids.new('tn')}").status == 404
