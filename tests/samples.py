"""One valid example of every kind: the line that a new kind adds, for the tests of the conventions to cover it."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chalicelib import edges, ids, resources
from chalicelib.crypto import keys
from chalicelib.http.endpoints import Endpoint
from chalicelib.http.resource import EditableResource, Resource
from chalicelib.model import tunnels
from chalicelib.model.kinds import Kind
from chalicelib.model.tunnels import AgentTunnel
from chalicelib.schema.shapes import Shape
from tests import openssl
from tests.doors import Client

CA = ("basicConstraints=critical,CA:TRUE",)
KINDS = (*resources.ALL, *edges.ALL)
EDITABLE_KINDS = tuple(resource for resource in KINDS if isinstance(resource, EditableResource))

OPEN = {  # the paths that ask for no token
    "/docs",
    "/openapi.json",
    "/ssh_certificate_authorities/{id}/krl",
    "/ssh_certificate_authorities/{id}/public_key",
}
FOR_ADMINS = {"/bot_users"}

each_kind = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind.path)
each_kind_for_everyone = pytest.mark.parametrize(
    "resource",
    [resource for resource in KINDS if resource.kind.path not in FOR_ADMINS],
    ids=lambda resource: resource.kind.path,
)
each_editable_kind = pytest.mark.parametrize("resource", EDITABLE_KINDS, ids=lambda resource: resource.kind.path)


def public_key() -> str:
    """A fresh public key in authorized_keys form."""
    return keys.authorized_key(keys.generate_ed25519().public_key())


def _certificate(client: Client) -> dict[str, Any]:
    authority = client.create("/ssh_certificate_authorities", {})
    return {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}


def _weighted_backend(client: Client) -> dict[str, Any]:
    child = client.create("/backends/http_response", {"status_code": 404})
    return {"backends": {child["id"]: 100}}


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


# What a client sends to create one.
BODIES: dict[str, Callable[[Client], dict[str, Any]]] = {
    "/api_keys": lambda client: {},
    "/backends/http_response": lambda client: {"status_code": 404},
    "/backends/tunnel_group": lambda client: {"labels": {"app": "web"}},
    "/backends/weighted": _weighted_backend,
    "/bot_users": lambda client: {"name": ids.new("name")},
    "/certificate_authorities": lambda client: {"ca_pem": openssl.issue("/CN=ca", extensions=CA).certificate},
    "/edges/https": lambda client: {},
    "/edges/https/{edge_id}/routes": lambda client: {"match_type": "exact_path", "match": f"/{ids.new('path')}"},
    "/edges/tcp": lambda client: {},
    "/edges/tls": lambda client: {},
    "/ssh_certificate_authorities": lambda client: {},
    "/ssh_credentials": lambda client: {"public_key": public_key()},
    "/ssh_host_certificates": _certificate,
    "/ssh_user_certificates": _certificate,
    "/tls_certificates": lambda client: openssl.issue().upload,
}

# How one of a kind that no client changes comes into being in the client's account, in the list at a path; its id.
BEGUN: dict[str, Callable[[Client, str], str]] = {
    "/ssh_certificate_authorities/{id}/revocations": _revocation,
    "/tunnels": _tunnel,
}

# Where a kind is listed that belongs to one of another kind: the path with a fresh one of those in it.
PATHS: dict[str, Callable[[Client], str]] = {
    "/edges/https/{edge_id}/routes": lambda client: f"/edges/https/{client.create('/edges/https', {})['id']}/routes",
    "/ssh_certificate_authorities/{id}/revocations": lambda client: (
        f"/ssh_certificate_authorities/{client.create('/ssh_certificate_authorities', {})['id']}/revocations"
    ),
}


def request_of(resource: Resource, method: str) -> type[Shape]:
    """The shape of the bodies that a method of the resource takes, inline modules included."""
    return next(it.body for it in resource.endpoints() if it.method == method and it.body)


@dataclass(frozen=True)
class Collection:
    """A client's resources of one kind, and the path of their list."""

    client: Client
    resource: Any  # a Resource; for most tests an EditableResource
    path: str

    @property
    def kind(self) -> Kind:
        return self.resource.kind

    @staticmethod
    def of(client: Client, resource: Resource) -> "Collection":
        path = resource.kind.path
        return Collection(client, resource, PATHS[path](client) if "{" in path else path)

    def body(self, **fields: Any) -> dict[str, Any]:
        """A valid creation body, with these fields."""
        return {**BODIES[self.kind.path](self.client), **fields}

    def one(self, **fields: Any) -> Any:
        """A fresh resource, as it is read: without its token, if it is an API key."""
        if not isinstance(self.resource, EditableResource):
            return self.read(BEGUN[self.kind.path](self.client, self.path))
        created = self.client.create(self.path, self.body(**fields))
        return {**created, "token": None} if "token" in created else created

    def read(self, id: str) -> Any:
        """The resource of that id, which must exist."""
        answer = self.client.get(f"{self.path}/{id}")
        assert answer.status == 200, answer.text
        return answer.json

    def entries(self) -> list[Any]:
        """The list, which must be one page."""
        answer = self.client.get(self.path).json
        assert answer["next_page_uri"] is None
        return list(answer[self.kind.array])

    def address(self, endpoint: Endpoint, id: str) -> str:
        """Where an endpoint of the kind is, for the resource of that id if it is about one."""
        return endpoint.path.replace(self.kind.one, f"{self.path}/{id}").replace(self.kind.path, self.path)

    def request(self, method: str) -> type[Shape]:
        return request_of(self.resource, method)

    def endpoints_of_one(self) -> list[Endpoint]:
        return [endpoint for endpoint in self.resource.endpoints() if endpoint.path.startswith(self.kind.one)]
