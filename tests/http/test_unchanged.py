"""What changes nothing writes nothing: no revision, no event, whatever kind or module is sent as it is already."""

from typing import Any

import pytest

from chalicelib.http.module import Module
from chalicelib.schema.models import model
from tests import gateway
from tests.modules.samples import SAMPLES, anywhere, each_module, on_a_holder
from tests.samples import BODIES, Collection, each_editable_kind
from tests.transports import Client

# Fields whose least value is nothing: with something in them they say more.
FULL: dict[str, dict[str, Any]] = {
    "/backends/http_response": {"headers": {"a": "b"}, "body": "c", "status_code": 201},
    "/backends/tunnel_group": {"labels": {"app": "web", "env": "a"}},
    "/ssh_credentials": {"acl": ["bind:*.example.com", "bind:app=web"]},
    "/bot_users": {"active": False},
    "/edges/https": {"hostports": ["a.example.com:443", "b.example.com:443"]},
    "/edges/tls": {"hostports": ["a.example.com:443", "b.example.com:443"]},
    "/edges/tcp": {"hostports": ["a.example.com:1234", "b.example.com:5678"]},
}


@pytest.fixture
def admin() -> Client:
    return gateway.admin()


def assert_unwritten(admin: Client, method: str, address: str, body: Any) -> None:
    """Assert that a request, once done, writes nothing when it comes three times more."""
    first = admin.send(method, address, body)
    assert first.status == 200, first.text
    events = admin.get("/audit_events?limit=1").json
    for _ in range(3):
        again = admin.send(method, address, body)
        assert (again.status, again.json, again.headers["etag"]) == (200, first.json, first.headers["etag"])
    assert admin.get("/audit_events?limit=1").json == events


@each_editable_kind
def test_a_resource_as_it_is(collection: Collection) -> None:
    resource, field_names = collection.create(), model(collection.request("PATCH")).model_fields
    fields = {name: value for name, value in resource.items() if name in field_names}
    address = f"{collection.path}/{resource['id']}"
    assert_unwritten(collection.client, "PATCH", address, fields)
    assert_unwritten(
        collection.client, "PATCH", address, {**fields, "metadata": "m", **FULL.get(collection.kind.path, {})}
    )


@each_module
def test_a_module_as_it_is(admin: Client, module: Module) -> None:
    request, address = SAMPLES[module.path][0].request, on_a_holder(admin, module)
    assert_unwritten(admin, "PUT", anywhere(module), request)
    assert_unwritten(admin, "PUT", address, request)
    assert_unwritten(admin, "PATCH", address.rpartition("/")[0], {module.name: request})


def test_a_policy_as_it_is(admin: Client) -> None:
    path = "/ssh_certificate_authorities"
    policy = {"user": {"allowed_principals": ["ops", "{user}"], "max_lifetime": 60}, "host": {}}
    assert_unwritten(admin, "PUT", f"{path}/{admin.create(path, {})['id']}/policy", policy)


def test_modules_that_refer_to_something(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    authorities = "/certificate_authorities"
    ids = [admin.create(authorities, BODIES[authorities](admin))["id"] for _ in range(3)]
    modules: dict[str, dict[str, Any]] = {
        "mutual_tls": {"certificate_authority_ids": ids},
        "backend": {"backend_id": admin.create("/backends/weighted", {})["id"]},
    }
    edge = f"/edges/tls/{admin.create('/edges/tls', modules)['id']}"
    assert_unwritten(admin, "PATCH", edge, modules)
    for name, module in modules.items():
        assert_unwritten(admin, "PUT", f"{edge}/{name}", module)


def test_a_secret_that_changes_is_written(admin: Client) -> None:
    edge = f"/edges/https/{admin.create('/edges/https', {})['id']}"
    route = f"{edge}/routes/{admin.create(f'{edge}/routes', {'match_type': 'exact_path', 'match': '/'})['id']}"
    for secret in ("one", "another", "one", ""):
        app = {"client_id": "app", "client_secret": secret} if secret else {}
        before = admin.get(route).headers["etag"]
        assert admin.put(f"{route}/oauth", {"provider": {"google": app}}).status == 200
        assert admin.get(route).headers["etag"] != before
        assert admin.get(f"{route}/oauth").json["provider"]["google"]["client_secret"] == secret
