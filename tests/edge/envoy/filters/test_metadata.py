"""Who can say that a visitor is signed in: only the filter that verifies session tokens.

Envoy does not ask the sign-in service about a request whose metadata has the issuer of a session token. So no other
filter may write to that namespace, whatever modules an edge has.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges import edges
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy, parse_cidr
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import Modules, ServedRoute
from chalicelib.storage.records import items, table
from edge.envoy.names import sign_in_host
from tests.edge.edge_modules import extended
from tests.edge.envoy import messages, whole_world
from tests.edge.plan import worlds
from tests.modules.samples import OF_EDGES, SAMPLES
from tests.transports import Client

TOKENS = "http.jwt_authn"
Config = Mapping[str, Any]
_TYPE = re.compile(r"envoy\.extensions\.filters\.(\w+\.\w+)\.v3\.\w+$")
_SET = re.compile(r"""dynamic(?:Typed)?Metadata\(\):set\((["'])(.+?)\1""")
_OF_ROUTES = "/edges/https/{edge_id}/routes/{id}/"


def _of_headers(config: Config) -> set[str]:
    rules = (*config.get("request_rules", ()), *config.get("response_rules", ()))
    pairs = [pair for rule in rules for name, pair in rule.items() if name.startswith("on_header_")]
    return {pair.get("metadata_namespace", "envoy.lb") for pair in pairs}


def _of_script(config: Config) -> set[str]:
    namespaces = {name for _, name in _SET.findall(str(config))}
    assert str(config).count(":set(") == len(_SET.findall(str(config)))  # no namespace is computed
    return namespaces


# The namespaces that a filter's configuration can write. A new filter whose configuration has texts needs an entry.
WRITES: Mapping[str, Callable[[Config], set[str]]] = {
    TOKENS: lambda _: {f"envoy.filters.{TOKENS}"},
    "http.header_to_metadata": _of_headers,
    "http.lua": _of_script,
    **{
        name: lambda _, name=name: {f"envoy.filters.{name}"}  # type: ignore[misc]
        for name in (
            *("http.compressor", "http.ext_authz", "http.header_mutation", "http.local_ratelimit", "http.rbac"),
            *("http.router", "http.set_filter_state", "network.connection_limit", "network.http_connection_manager"),
            *("listener.proxy_protocol", "listener.tls_inspector"),
            *("network.rbac", "network.set_filter_state", "network.tcp_proxy"),
        )
    },
}


def list_namespaces(name: str, config: Config) -> set[str]:
    """Return the namespaces that a filter can write. One with nothing but numbers to configure has only its own."""
    if name in WRITES:
        return WRITES[name](config)
    assert not _has_texts(config), f"the filter {name} is not in WRITES, and its configuration could name a namespace"
    return {f"envoy.filters.{name}"}


def _has_texts(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_has_texts(member) for name, member in value.items() if name != "@type")
    return any(map(_has_texts, value)) if isinstance(value, list) else isinstance(value, str)


def make_route(admin: Client, edge: str, name: str, body: Config) -> ServedRoute:
    """Return a route with a module as the edge reads it."""
    path, match = f"/edges/https/{edge}/routes", f"/{name}"
    id = admin.create(path, {"match_type": "path_prefix", "match": match})["id"]
    assert admin.put(f"{path}/{id}/{name}", {**body, "enabled": True}).status == 200
    item = table.find(edges.routes_scope(items.scope(admin.account, kinds.HTTPS_EDGES.path), edge), id)
    assert item
    modules = Modules.of(item.modules, kinds.HTTPS_EDGE_ROUTES)
    assert name in modules.values
    return ServedRoute(id, "path_prefix", match, extended(modules, backend=BackendModule(backend_id=worlds.GROUP)))


def list_configs(value: object) -> Iterator[tuple[str, Config]]:
    """Yield all configurations of filters in a message, with the names of their filters."""
    if isinstance(value, Mapping):
        if match := _TYPE.search(str(value.get("@type"))):
            yield match[1], value
        value = list(value.values())
    for member in value if isinstance(value, list) else ():
        yield from list_configs(member)


def test_no_filter_of_any_module_writes_that_a_visitor_is_signed_in(admin: Client) -> None:
    edge = admin.create("/edges/https", {})["id"]
    policy = admin.create("/ip_policies", {})["id"]
    names = [module.name for module in OF_EDGES if module.path.startswith(_OF_ROUTES) and module.name != "backend"]
    bodies = {name: SAMPLES[f"{_OF_ROUTES}{name}"][0].request for name in names}
    bodies["ip_restriction"] = {"ip_policy_ids": [policy]}
    routes = [make_route(admin, edge, name, body) for name, body in bodies.items()]
    hosts = [f"{name}.{worlds.DOMAIN}" for name in ("open", "oauth", "mutual")]
    world = (
        *(worlds.GATEWAY, worlds.tunnel(), worlds.group(), worlds.authority()),
        ServedPolicy(worlds.A, policy, Rules(allow=(parse_cidr("192.0.2.0/24"),))),
        worlds.edge(*(route for route in routes if route.match != "/oauth"), hosts=[hosts[0]], id="edghts_1"),
        worlds.edge(*routes, hosts=[hosts[1]], id="edghts_2"),
        worlds.edge(*routes, hosts=[hosts[2]], id="edghts_3", authorities=["ca_1"]),
    )
    resources = whole_world.build(whole_world.SETTINGS, world, hosts)
    resources |= {
        str(resource.key): messages.decode(resource) for resource in sign_in_host.build(whole_world.SETTINGS, "PEM")
    }

    namespaces_by_filter = {name: set[str]() for name in WRITES}
    for name, config in list_configs(resources):
        namespaces_by_filter.setdefault(name, set()).update(list_namespaces(name, config))

    assert [name for name, namespaces in namespaces_by_filter.items() if not namespaces] == []
    of_tokens = namespaces_by_filter.pop(TOKENS)
    assert of_tokens == {"envoy.filters.http.jwt_authn"}
    assert of_tokens.isdisjoint(set[str]().union(*namespaces_by_filter.values()))
    assert namespaces_by_filter["http.header_to_metadata"] == {"cookies"}
    assert namespaces_by_filter["http.lua"] == {"passwords"}


def test_a_new_filter_needs_an_entry_if_its_configuration_has_texts() -> None:
    of_numbers = {"@type": "any", "buffer": {"max_request_bytes": 1}, "flags": [True]}
    assert list_namespaces("http.planted", of_numbers) == {"envoy.filters.http.planted"}
    with pytest.raises(AssertionError, match=r"the filter http\.planted is not in WRITES"):
        list_namespaces("http.planted", {**of_numbers, "rules": [{"metadata_namespace": TOKENS}]})
