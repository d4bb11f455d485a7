"""The resources of edges read as Envoy reads them, without Envoy: what a request meets by them."""

from typing import Any

import re2

from edge.envoy.resources import Changes, Key
from tests.edge.model_of_requests import BYTES, CLOSED, REFUSED, Meets, Request

_VERSIONS = {"1.0": "TLSv1_0", "1.1": "TLSv1_1", "1.2": "TLSv1_2", "1.3": "TLSv1_3"}
_ORDER = list(_VERSIONS.values())


class AsEnvoy:
    """The resources that there are."""

    def __init__(self, changes: Changes) -> None:
        self._found: dict[Key, Any] = {key: it.body for key, it in changes.items() if it}

    def meets(self, request: Request) -> Meets:
        """Return what a request may meet; of tunnels by the endpoint that is named for them."""
        wildcard = f"*.{request.host.partition('.')[2]}"
        name = next((it for it in (request.host, wildcard) if Key("listener", "https", it) in self._found), None)
        if name is None:
            default = self._found[Key("listener", "https")]["default_filter_chain"]
            is_open = _is_open(default["transport_socket"]["typed_config"], request)
            return self._routed(self._parts("operator"), request) if is_open else frozenset({REFUSED})
        cluster = self._found.get(Key("cluster", f"name/{name}"))
        if cluster is None:
            return frozenset({REFUSED})
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        listener = endpoint["endpoint"]["address"]["envoy_internal_address"]["server_listener_name"]
        (chain,) = self._found[Key("listener", listener)]["filter_chains"]
        if "transport_socket" in chain and not _is_open(chain["transport_socket"]["typed_config"], request):
            return frozenset({REFUSED})
        if chain["filters"][-1]["name"] == "envoy.filters.network.tcp_proxy":
            return self._passed_on(chain["filters"][-1]["typed_config"])
        routes = chain["filters"][-1]["typed_config"]["rds"]["route_config_name"]
        return self._routed(self._found[Key("routes", routes)]["virtual_hosts"], request)

    def _parts(self, routes: str) -> list[Any]:
        return [
            host for key, it in self._found.items() if key[:2] == ("routes", routes) for host in it["virtual_hosts"]
        ]

    def _routed(self, hosts: list[Any], request: Request) -> Meets:
        domains = {domain: host for host in hosts for domain in host["domains"]}
        fitting = [it for it in domains if it == request.host or (it[0] == "*" and request.host.endswith(it[1:]))]
        host = domains[max(fitting, key=lambda it: (it == request.host, len(it)))]
        for route in host["routes"]:
            if _matches(route["match"], request):
                if "direct_response" in route:
                    return frozenset({str(route["direct_response"]["status"])})
                action = route["route"]
                shared = action.get("weighted_clusters", {}).get("clusters", [{"name": action.get("cluster")}])
                return frozenset(it for upstream in shared for it in self._answers(upstream["name"]))
        raise AssertionError("no route at all")

    def _passed_on(self, proxy: Any) -> Meets:
        shared = proxy.get("weighted_clusters", {}).get("clusters", [{"name": proxy.get("cluster")}])
        found = [self._found.get(Key("cluster", it["name"])) for it in shared]
        shares = [share for it in found if it for share in it["load_assignment"]["endpoints"]]
        tunnels = {it["endpoint"]["hostname"] for share in shares for it in share["lb_endpoints"]}
        return frozenset(tunnels | ({CLOSED} if not all(found) or not tunnels else set()))

    def _answers(self, upstream: str) -> list[str]:
        cluster = self._found[Key("cluster", upstream)]
        if upstream.startswith("answer/"):
            assert Key("listener", upstream) in self._found
            return [upstream.removeprefix("answer/")]
        ((endpoints),) = cluster["load_assignment"]["endpoints"]
        return [it["endpoint"]["hostname"] for it in endpoints["lb_endpoints"]] or ["503"]


def _is_open(context: Any, request: Request) -> bool:
    common = context["common_tls_context"]
    least = common["tls_params"]["tls_minimum_protocol_version"]
    if _ORDER.index(_VERSIONS[request.version]) < _ORDER.index(least):
        return False
    trusted = common.get("validation_context", {}).get("trusted_ca", {}).get("inline_string", "")
    return not context.get("require_client_certificate") or request.client in trusted.splitlines()


def _matches(match: Any, request: Request) -> bool:
    path = request.path.partition("?")[0]
    if "grpc" in match or not (path == match.get("path") or path.startswith(match.get("prefix", " "))):
        return False
    return all(_has(condition, request) for condition in match.get("headers", ()))


def _has(condition: Any, request: Request) -> bool:
    """Tell whether a condition on a header is met, whose values Envoy joins with commas, without empty ones."""
    sent = {":authority": [request.host], ":path": [request.path], "user-agent": request.agents}
    named = sent.get(condition["name"], [])
    if "present_match" in condition:
        return bool(named)
    if not named and not condition.get("treat_missing_header_as_empty"):
        return False
    if "prefix" in condition["string_match"]:
        return bool(named[0].startswith(condition["string_match"]["prefix"]))
    regex, text = condition["string_match"]["safe_regex"]["regex"].encode(), ",".join(filter(None, named)).encode()
    found = re2.fullmatch(regex, text, BYTES)
    return bool(found) is not condition.get("invert_match", False)
