"""The routes of tunnels and of the port without TLS, whole."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges import ip_policies
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import routes, v3
from edge.envoy.filters import kept_headers, visitor_addresses
from tests.edge.envoy import messages
from tests.edge.envoy.values import SETTINGS

PLAIN = Site("a.example.com", ServedTunnel("acct_a", "tn_1", "gw-1", "a.example.com"), OPERATOR)


HOST: Any = {
    "name": "a.example.com",
    "domains": ["a.example.com"],
    "metadata": {"filter_metadata": {"edge": {"tunnel": "tn_1", "account": "acct_a"}}},
    "routes": [
        {"match": {"prefix": "/", "grpc": {}}, "route": {"cluster": "gw-1/http2", "timeout": "0s"}},
        {"match": {"prefix": "/"}, "route": {"cluster": "gw-1", "timeout": "0s"}},
    ],
    "retry_policy": {"retry_on": "reset-before-request", "num_retries": 1},
}


def test_the_virtual_host_of_a_tunnel() -> None:
    config = v3.RouteConfiguration()
    routes.add_site_host(config, PLAIN)
    assert [messages.to_json(virtual_host) for virtual_host in config.virtual_hosts] == [HOST]


def test_the_port_without_tls_redirects_every_host_and_sends_challenges_to_control() -> None:
    to: Any = {"https_redirect": True, "response_code": "PERMANENT_REDIRECT", "port_redirect": 8443}
    challenges = {"match": {"prefix": "/.well-known/acme-challenge/"}, "route": {"cluster": "challenges"}}
    virtual_host = {
        "name": "every",
        "domains": ["*"],
        "routes": [challenges, {"match": {"prefix": "/"}, "redirect": to}],
    }
    body = messages.decode(routes.build_all_redirects(SETTINGS))
    assert body == {"name": "http", "ignore_port_in_host_matching": True, "virtual_hosts": [virtual_host]}


@pytest.mark.parametrize(("port", "port_redirect"), [(443, {}), (8443, {"port_redirect": 8443})])
def test_a_redirect_names_another_port_than_that_of_https(port: int, port_redirect: Mapping[str, int]) -> None:
    body = messages.decode(routes.build_all_redirects(replace(SETTINGS, edge_port=port)))
    assert body["virtual_hosts"][0]["routes"][1]["redirect"] == {
        "https_redirect": True,
        "response_code": "PERMANENT_REDIRECT",
        **port_redirect,
    }


def test_a_tunnel_with_the_proxy_protocol_has_connections_for_each_visitor() -> None:
    reading = replace(PLAIN, tunnel=replace(PLAIN.tunnel, proxy_protocol=True))
    config = v3.RouteConfiguration()
    routes.add_site_host(config, reading)
    cluster_names = [route.route.cluster for route in config.virtual_hosts[0].routes]
    assert cluster_names == ["gw-1/proxied/http2", "gw-1/proxied"]


def test_the_ip_policies_of_a_tunnel_refuse_visitors() -> None:
    config, expected = v3.RouteConfiguration(), v3.VirtualHost()
    visitor_addresses.restrict(expected, ip_policies.REFUSE_ALL)
    routes.add_site_host(config, replace(PLAIN, refusals=ip_policies.REFUSE_ALL))
    configs = messages.to_json(config.virtual_hosts[0])["typed_per_filter_config"]
    assert configs == messages.to_json(expected)["typed_per_filter_config"]


def test_a_tunnel_without_a_reservation_refuses_challenges_first() -> None:
    config = v3.RouteConfiguration()
    routes.add_site_host(config, replace(PLAIN, refuses_challenges=True))
    first, *other_routes = (messages.to_json(route) for route in config.virtual_hosts[0].routes)
    assert (first["match"]["prefix"], first["direct_response"]["status"]) == ("/.well-known/acme-challenge/", 404)
    assert other_routes == HOST["routes"]


def test_a_tunnel_keeps_the_headers_that_its_reserved_domain_names() -> None:
    config, expected = v3.RouteConfiguration(), v3.VirtualHost()
    kept_headers.set_host_config(expected, ["x-forwarded-for"])
    routes.add_site_host(config, replace(PLAIN, keep_headers=("x-forwarded-for",)))
    configs = messages.to_json(config.virtual_hosts[0])["typed_per_filter_config"]
    assert configs == messages.to_json(expected)["typed_per_filter_config"]
