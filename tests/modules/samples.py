"""Two valid examples of every module, for the tests of the conventions to cover it.

They are made of the document's examples, except for modules whose response differs from the request.
"""

from dataclasses import dataclass
from inspect import get_annotations
from typing import Any

import pytest

from chalicelib import edges, ids, modules
from chalicelib.http import messages
from chalicelib.http.module import Module
from chalicelib.modules.oauth import EndpointOAuthProvider
from chalicelib.schema.models import model
from infra.build.openapi import examples
from infra.build.openapi.examples import NoSample
from infra.build.openapi.names import Operation
from tests.samples import Collection
from tests.transports import Client

BASE_URL = "http://localhost"
AUTHORITIES = [ids.new("ca") for _ in range(2)]
BACKEND = ids.new("bkdwd")
NO_PROVIDER = dict.fromkeys(get_annotations(EndpointOAuthProvider))
PROVIDER = {"client_id": "", "client_secret": "", "scopes": [], "email_addresses": [], "email_domains": []}
GITHUB = {
    "client_id": "an app",
    "client_secret": "hunter2",
    "scopes": ["read:org", "user:email"],
    "email_addresses": ["ada@example.com"],
    "email_domains": ["example.com"],
    "teams": ["acme/ops"],
    "organizations": ["acme"],
}
DURATIONS = {"inactivity_timeout": 1, "maximum_duration": 2, "auth_check_interval": 3}


@dataclass(frozen=True)
class Sample:
    """The body that a client sends, and the module that comes of it."""

    request: dict[str, Any]
    response: dict[str, Any]


def ref(path: str, id: str) -> dict[str, str]:
    """Return a Ref object, as the transport in this process answers it."""
    return {"id": id, "uri": f"{BASE_URL}{path}/{id}"}


_OAUTH = {"options_passthrough": True, "cookie_prefix": "acme.", **DURATIONS}
_NO_OAUTH = {"options_passthrough": False, "cookie_prefix": "service.", **dict.fromkeys(DURATIONS, 0)}

_BACKENDS = (
    Sample(
        {"enabled": False, "backend_id": BACKEND},
        {"enabled": False, "backend": ref("/backends/weighted", BACKEND)},
    ),
    Sample({}, {"enabled": True, "backend": None}),
)

POLICIES = [ids.new("ipp") for _ in range(2)]
_IP_RESTRICTION = (
    Sample(
        {"enabled": False, "ip_policy_ids": POLICIES},
        {"enabled": False, "ip_policies": [ref("/ip_policies", id) for id in POLICIES]},
    ),
    Sample({"ip_policy_ids": POLICIES[1:]}, {"enabled": True, "ip_policies": [ref("/ip_policies", POLICIES[1])]}),
)

_MUTUAL_TLS = (
    Sample(
        {"enabled": False, "certificate_authority_ids": AUTHORITIES},
        {"enabled": False, "certificate_authorities": [ref("/certificate_authorities", id) for id in AUTHORITIES]},
    ),
    Sample(
        {"certificate_authority_ids": AUTHORITIES[1:]},
        {"enabled": True, "certificate_authorities": [ref("/certificate_authorities", AUTHORITIES[1])]},
    ),
)

_CIRCUIT = {
    "tripped_duration": 120,
    "rolling_window": 300,
    "num_buckets": 60,
    "volume_threshold": 20,
    "error_threshold_percentage": 0.29,
}

_WEBHOOK = {"provider": "SVIX", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}

# By the module's path: an example that sets every field, and one that sets as few as may be.
_WRITTEN: dict[str, tuple[Sample, Sample]] = {
    "/edges/https/{edge_id}/routes/{id}/oauth": (
        Sample(
            {"enabled": False, "provider": {"github": GITHUB}, **_OAUTH},
            {"enabled": False, "provider": {**NO_PROVIDER, "github": GITHUB}, **_OAUTH},
        ),
        Sample(
            {"provider": {"google": {}}},
            {"enabled": True, "provider": {**NO_PROVIDER, "google": PROVIDER}, **_NO_OAUTH},
        ),
    ),
    "/edges/https/{edge_id}/routes/{id}/user_agent_filter": (
        Sample(
            {"enabled": False, "allow": ["^Mozilla/"], "deny": ["(?i)bot"]},
            {"enabled": False, "allow": ["^Mozilla/"], "deny": ["(?i)bot"]},
        ),
        Sample({}, {"enabled": True, "allow": [], "deny": []}),
    ),
    "/edges/https/{edge_id}/routes/{id}/circuit_breaker": (
        Sample({"enabled": False, **_CIRCUIT}, {"enabled": False, **_CIRCUIT}),
        Sample(
            {},
            {"enabled": True, **dict.fromkeys(_CIRCUIT, 10), "error_threshold_percentage": 0.5},
        ),
    ),
    "/edges/https/{edge_id}/routes/{id}/webhook_verification": (
        Sample({"enabled": False, **_WEBHOOK}, {"enabled": False, **_WEBHOOK}),
        Sample({"provider": "GITHUB", "secret": "x"}, {"enabled": True, "provider": "GITHUB", "secret": "x"}),
    ),
    "/edges/https/{edge_id}/routes/{id}/basic_auth": (
        Sample(
            {"enabled": False, "credentials": [{"username": "ada", "password": "p:ss wörd"}]},
            {"enabled": False, "credentials": [{"username": "ada", "password": ""}]},
        ),
        Sample(
            {"credentials": [{"username": "a", "password": "12345678"}, {"username": "é b", "password": "x" * 128}]},
            {"enabled": True, "credentials": [{"username": "a", "password": ""}, {"username": "é b", "password": ""}]},
        ),
    ),
    "/edges/https/{edge_id}/routes/{id}/backend": _BACKENDS,
    "/edges/tls/{id}/backend": _BACKENDS,
    "/edges/tcp/{id}/backend": _BACKENDS,
    "/edges/https/{edge_id}/ip_restriction": _IP_RESTRICTION,
    "/edges/https/{edge_id}/routes/{id}/ip_restriction": _IP_RESTRICTION,
    "/edges/tls/{id}/ip_restriction": _IP_RESTRICTION,
    "/edges/tcp/{id}/ip_restriction": _IP_RESTRICTION,
    "/edges/https/{edge_id}/mutual_tls": _MUTUAL_TLS,
    "/edges/tls/{id}/mutual_tls": _MUTUAL_TLS,
    "/edges/https/{edge_id}/tls_termination": (
        Sample(
            {"enabled": False, "terminate_at": "edge", "min_version": "1.3"},
            {"enabled": False, "terminate_at": "edge", "min_version": "1.3"},
        ),
        Sample({}, {"enabled": True, "terminate_at": "edge", "min_version": None}),
    ),
}


def make(module: Module) -> tuple[Sample, Sample]:
    """Return the samples of a module whose response has the fields of the request: from the document's example."""
    if module.shows or module.to_response:
        raise NoSample(
            f"tests/modules/samples.py lacks samples of {module.path}: its response differs from the request."
        )
    operation, fields = Operation.of(module.endpoints()[0]), model(module.shape).model_fields
    full = {**examples.request(operation), "enabled": False}
    if missing := fields.keys() - full.keys():
        raise NoSample(f'infra/build/openapi/examples.json: "{operation.example}" lacks {", ".join(sorted(missing))}.')
    least = {name: full[name] for name, field in fields.items() if field.is_required()}
    shape, _ = messages.read(module.shape, least, {})
    assert shape
    return Sample(full, {**examples.response(operation), "enabled": False}), Sample(least, shape.values())


HOMES = {resource.kind.item_path for resource in edges.load_all()}
OF_EDGES = tuple(module for module in modules.load_all() if module.home in HOMES)
SAMPLES = {module.path: _WRITTEN.get(module.path) or make(module) for module in OF_EDGES}
each_module = pytest.mark.parametrize("module", OF_EDGES, ids=lambda module: module.path)


def anywhere(module: Module) -> str:
    """Return the module's path on an edge or route that no account has registered."""
    resource = next(resource for resource in edges.load_all() if resource.kind.item_path == module.home)
    return module.path.format(**{"edge_id": ids.new("edghts"), resource.kind.variable: ids.new(resource.kind.prefix)})


def on_a_holder(client: Client, module: Module) -> str:
    """Return the module's path on a new edge or route of the client's account."""
    resource = next(resource for resource in edges.load_all() if resource.kind.item_path == module.home)
    return f"{Collection.of(client, resource).create()['uri'].removeprefix(client.transport.base_url)}/{module.name}"
