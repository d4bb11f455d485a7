"""The listeners of TCP ports and of single tunnels, and secrets."""

from dataclasses import replace

from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import listeners
from edge.envoy.filters import blocking, proxies
from edge.envoy.names import https_listener
from edge.envoy.resources import Key
from tests.edge.envoy import messages
from tests.edge.envoy.values import BELIEVING, RANGES, SETTINGS, SOCKETS


def test_a_secret_is_a_pair_and_is_shown_nowhere() -> None:
    pair = {"certificate_chain": {"inline_string": "CHAIN"}, "private_key": {"inline_string": "KEY"}}
    secret = listeners.build_secret("cert_1", "CHAIN", "KEY")
    assert (secret.key, messages.decode(secret)) == (
        Key("secret", "cert_1"),
        {"name": "cert_1", "tls_certificate": pair},
    )
    assert (
        secret
        == listeners.build_secret("cert_1", "CHAIN", "KEY")
        != listeners.build_secret("cert_1", "CHAIN", "ANOTHER")
    )
    assert "KEY" not in repr(secret)


def test_the_port_of_a_tunnel_is_bounded_by_itself_and_nobody_elses() -> None:
    tunnel = ServedTunnel("acct_a", "tn_1", "gw-1", "tunnels.localhost:20001", proto="tcp")
    listener = listeners.build_tunnel_port_listener(tunnel, "20001", SETTINGS)
    assert listener.key == Key("listener", "port/20001")
    body = messages.decode(listener)
    assert body["address"] == {"socket_address": {"address": "127.0.0.1", "port_value": 20001}}
    assert body["socket_options"] == SOCKETS  # the client may wait for the server to speak first
    assert body["ignore_global_conn_limit"]
    assert "enable_reuse_port" not in body  # by default, two Envoys can share a port
    assert body["traffic_direction"] == "INBOUND"  # a drain closes these listeners only
    within = messages.decode(listeners.build_tunnel_listener(replace(tunnel, proto="tls"), SETTINGS))
    assert "traffic_direction" not in within
    assert [listener_filter["name"].rpartition(".")[2] for listener_filter in within["listener_filters"]] == [
        "proxy_protocol",
        "tls_inspector",
    ]


def test_behind_proxies_each_public_port_reads_from_them_alone_who_a_visitor_is() -> None:
    tunnel = ServedTunnel("acct_a", "tn_1", "gw-1", "tunnels.localhost:20001", proto="tcp")
    for settings, read in ((SETTINGS, []), (BELIEVING, ["envoy.filters.listener.proxy_protocol"])):
        http, https, *_ = map(messages.decode, https_listener.build_public(settings))
        port = messages.decode(listeners.build_tunnel_port_listener(tunnel, "20001", settings))
        for body in (http, https, port):
            names = [listener_filter["name"] for listener_filter in body.get("listener_filters", [])]
            assert names == [*read, *["envoy.filters.listener.tls_inspector"] * (body is https)]
        match = http["filter_chains"][0].get("filter_chain_match", {})
        assert match == ({"direct_source_prefix_ranges": RANGES} if read else {})
        matcher = proxies.guard_matcher(blocking.MATCHER, settings)
        assert port["filter_chain_matcher"] == messages.to_json(matcher)
