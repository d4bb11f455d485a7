"""Samples of every kind, made of the document's examples, for the tests of the conventions to cover them all."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from chalicelib import edges, ids, resources
from chalicelib.crypto import keys
from chalicelib.http.endpoints import Endpoint
from chalicelib.http.resource import EditableResource, Resource
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel
from chalicelib.operator import owners
from chalicelib.schema.models import model
from chalicelib.schema.shapes import Shape
from infra.build.openapi import examples
from tests.transports import Client

KINDS = (*resources.load_all(), *edges.load_all())
EDITABLE_KINDS = tuple(resource for resource in KINDS if isinstance(resource, EditableResource))

OPEN = {  # the paths that ask for no token
    "/",
    "/docs",
    "/openapi.json",
    "/ssh_certificate_authorities/{id}/krl",
    "/ssh_certificate_authorities/{id}/public_key",
    "/federated_credentials/{id}/sign_in",
    "/tokens",
    "/health",
}
FOR_ADMINS = {"/bot_users", "/federated_credentials"}

each_kind = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind.path)
each_kind_for_everyone = pytest.mark.parametrize(
    "resource",
    [resource for resource in KINDS if resource.kind.path not in FOR_ADMINS],
    ids=lambda resource: resource.kind.path,
)
each_editable_kind = pytest.mark.parametrize("resource", EDITABLE_KINDS, ids=lambda resource: resource.kind.path)


def public_key() -> str:
    """Return a new public key in authorized_keys form."""
    return keys.authorized_key(keys.generate_ed25519().public_key())


def _event(client: Client, _path: str) -> str:
    client.create("/backends/http_response", {})
    return str(client.get("/audit_events?limit=1").json["audit_events"][0]["id"])


def _revocation(client: Client, path: str) -> str:
    return str(client.create(path, {"serial": str(1 + secrets.randbelow(2**64 - 1))})["id"])


def _tunnel(client: Client, _path: str) -> str:
    tunnel = AgentTunnel(
        tunnel_session=ids.new("ts"),
        endpoint=ids.new("ep"),
        region="eu",
        proto="https",
        public_url="https://a.example",
        forwards_to="http://localhost:80",
    )
    return tunnels.open_tunnel(client.account, tunnel, lease=600)


def _user(client: Client, _path: str) -> str:
    return owners.add_owner(client.account, "usr", ids.new("name"), admin=False).id


# Fields whose value no two of a kind may share: a fresh one for each.
FRESH: dict[str, Callable[[], str]] = {
    "domain": lambda: f"{ids.strip_prefix(ids.new('name')).lower()}.example.com",
    "match": lambda: f"/{ids.new('path')}",
    "name": lambda: ids.new("name"),
    "public_key": public_key,
}


ONE_OF = {"owner_claim", "action"}  # optional fields that are required without another one


def sample(client: Client, resource: Resource) -> dict[str, Any]:
    """Return the required fields of the document's example, with new unique values and ids of the client's account."""
    fields = model(request_of(resource, "POST")).model_fields
    body = examples.read()[resource.kind.noun]["create"]
    required = {name for name, field in fields.items() if field.is_required()} | (fields.keys() & ONE_OF)
    return {name: fresh_value(client, name, value) for name, value in body.items() if name in required}


def fresh_value(client: Client, field: str, value: Any) -> Any:
    """Return the value of a field: a new unique one, or ids of new resources of the client's account."""
    if field in FRESH:
        return FRESH[field]()
    if not kinds.list_by_field(field):
        return value
    if isinstance(value, dict):
        return {_fresh_id(client, id): weight for id, weight in value.items()}
    return [_fresh_id(client, id) for id in value] if isinstance(value, list) else _fresh_id(client, value)


def _fresh_id(client: Client, id: str) -> str:
    """Create a resource of the kind of an id, in the client's account; return its id."""
    resource = next(resource for resource in KINDS if resource.kind is kinds.identify(id))
    return str(client.create(resource.kind.path, BODIES[resource.kind.path](client))["id"])


# What a client sends to create one.
BODIES: dict[str, Callable[[Client], dict[str, Any]]] = {
    resource.kind.path: partial(sample, resource=resource) for resource in EDITABLE_KINDS
}

# How one of a kind that no client changes comes into being in the client's account, in the list at a path; its id.
BEGUN: dict[str, Callable[[Client, str], str]] = {
    "/audit_events": _event,
    "/ssh_certificate_authorities/{id}/revocations": _revocation,
    "/tunnels": _tunnel,
    "/users": _user,
}

# Where a kind is listed that belongs to one of another kind: the path with a fresh one of those in it.
PATHS: dict[str, Callable[[Client], str]] = {
    "/edges/https/{edge_id}/routes": lambda client: f"/edges/https/{client.create('/edges/https', {})['id']}/routes",
    "/ssh_certificate_authorities/{id}/revocations": lambda client: (
        f"/ssh_certificate_authorities/{client.create('/ssh_certificate_authorities', {})['id']}/revocations"
    ),
}


def request_of(resource: Resource, method: str) -> type[Shape]:
    """Return the shape of the bodies that a method of the resource takes, inline modules included."""
    return next(endpoint.body for endpoint in resource.endpoints() if endpoint.method == method and endpoint.body)


@dataclass(frozen=True)
class Collection:
    """A client's resources of one kind, and the path of their list."""

    client: Client
    resource: Resource
    path: str

    @property
    def kind(self) -> Kind:
        return self.resource.kind

    @staticmethod
    def of(client: Client, resource: Resource) -> "Collection":
        path = resource.kind.path
        return Collection(client, resource, PATHS[path](client) if "{" in path else path)

    def body(self, **fields: Any) -> dict[str, Any]:
        """Return a valid creation body, with these fields."""
        return {**BODIES[self.kind.path](self.client), **fields}

    def create(self, **fields: Any) -> Any:
        """Create a resource and return it as it is read: without its token, if it is an API key."""
        if not isinstance(self.resource, EditableResource):
            return self.read(BEGUN[self.kind.path](self.client, self.path))
        resource = self.client.create(self.path, self.body(**fields))
        return {**resource, "token": None} if "token" in resource else resource

    def read(self, id: str) -> Any:
        """Return the resource of that id, which must exist."""
        answer = self.client.get(f"{self.path}/{id}")
        assert answer.status == 200, answer.text
        return answer.json

    def entries(self) -> list[Any]:
        """Return the entries of the list, which must be one page."""
        answer = self.client.get(self.path).json
        assert answer["next_page_uri"] is None
        return list(answer[self.kind.array])

    def address(self, endpoint: Endpoint, id: str) -> str:
        """Return the path of an endpoint of the kind, for the resource of that id if it is about one."""
        return endpoint.path.replace(self.kind.item_path, f"{self.path}/{id}").replace(self.kind.path, self.path)

    def request(self, method: str) -> type[Shape]:
        return request_of(self.resource, method)

    def endpoints_of_one(self) -> list[Endpoint]:
        return [endpoint for endpoint in self.resource.endpoints() if endpoint.path.startswith(self.kind.item_path)]
