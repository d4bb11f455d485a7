"""What the words of `te http`, `te tls` and `te tcp` mean, as tables."""

import pytest

from tunnel_edge.errors import CommandError
from tunnel_edge.tunnels import requested
from tunnel_edge.tunnels.gateways import Gateway, parse_gateways
from tunnel_edge.tunnels.requested import LocalServer, RequestedTunnel

DOMAIN = "t.example.com"
PORTS = range(20000, 20003)


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("3000", LocalServer("127.0.0.1", 3000)),
        ("localhost:3000", LocalServer("localhost", 3000)),
        ("192.0.2.1:80", LocalServer("192.0.2.1", 80)),
        ("[::1]:3000", LocalServer("::1", 3000)),
        ("http://localhost:3000", LocalServer("localhost", 3000)),
        ("http://localhost/", LocalServer("localhost", 80)),
        ("https://localhost", LocalServer("localhost", 443, is_tls=True)),
        ("https://[::1]:8443/", LocalServer("::1", 8443, is_tls=True)),
    ],
)
def test_a_local_server_is_a_port_an_address_or_a_url(text: str, server: LocalServer) -> None:
    assert requested.parse_server(text) == server


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "65536",
        "x",
        ":80",
        "host:",
        "host:x",
        "ftp://x",
        "http://x/path",
        "http://x?q",
        "http://u@x",
        "http://x:0x1",
    ],
)
def test_any_other_text_is_wrong_usage(text: str) -> None:
    with pytest.raises(CommandError) as error:
        requested.parse_server(text)
    assert error.value.code == 2
    assert "write a port (3000), HOST:PORT, or a URL" in str(error.value)


@pytest.mark.parametrize(
    ("tunnel", "ssh_request", "rules"),
    [
        (RequestedTunnel("http", "demo"), ("demo", 80), ["bind:demo.t.example.com"]),
        (RequestedTunnel("http", "Demo.T.example.com."), ("Demo.T.example.com.", 80), ["bind:demo.t.example.com"]),
        (RequestedTunnel("http", "shop.example.com"), ("shop.example.com", 80), ["bind:shop.example.com"]),
        (RequestedTunnel("http"), ("localhost", 80), ["bind:*.t.example.com"]),
        (RequestedTunnel("http", labels=("App=web", "a=1")), ("App=web,a=1", 80), ["bind:App=web", "bind:a=1"]),
        (RequestedTunnel("tls", "demo"), ("demo", 443), ["bind:demo.t.example.com"]),
        (RequestedTunnel("tcp", port=20022), ("localhost", 20022), ["bind:t.example.com:20022"]),
        (RequestedTunnel("tcp"), ("localhost", 0), [f"bind:t.example.com:{port}" for port in PORTS]),
        (RequestedTunnel("tcp", labels=("a=1",)), ("a=1", 80), ["bind:a=1"]),
    ],
)
def test_a_tunnel_has_an_ssh_request_and_acl_rules(
    tunnel: RequestedTunnel, ssh_request: tuple[str, int], rules: list[str]
) -> None:
    assert (tunnel.listen_host, tunnel.listen_port) == ssh_request
    assert list(tunnel.rules(DOMAIN, PORTS)) == rules


@pytest.mark.parametrize("name", ["bad name", "a/b", "a..b", ".a", "é", "a\n", "-R a:b"])
def test_a_name_has_the_characters_of_a_domain(name: str) -> None:
    with pytest.raises(CommandError, match="is not a name: use letters, digits, hyphens and dots") as error:
        requested.check_name(name)
    assert error.value.code == 2
    assert [requested.check_name(name) for name in ("demo", "Shop.example.com.", "x-1")] == [
        "demo",
        "Shop.example.com.",
        "x-1",
    ]


@pytest.mark.parametrize("label", ["", "a", "=b", "a=", "a=b,c=d", "a=*", "*=b"])
def test_a_label_is_one_name_with_a_value(label: str) -> None:
    with pytest.raises(CommandError, match="is not a label: write name=value"):
        requested.check_labels([label])


@pytest.mark.parametrize(
    ("text", "ports"), [("20000-20002", PORTS), ("", range(0)), ("x-y", range(0)), ("5", range(0))]
)
def test_the_ports_of_a_service(text: str, ports: range) -> None:
    assert requested.parse_ports(text) == ports


def test_gateways_without_an_address_or_a_host_key_are_left_out() -> None:
    entries = [
        {"address": "gw.example.com:2222", "region": "eu", "host_keys": ["ssh-ed25519 AAAA"]},
        {"address": "[2001:db8::1]:2222", "host_keys": ["k"]},
        {"address": "gw.example.com:2222", "host_keys": []},
        {"address": "", "host_keys": ["k"]},
        {"address": "gw.example.com", "host_keys": ["k"]},
    ]
    gateways = parse_gateways({"gateways": entries})
    assert gateways == (
        Gateway("gw.example.com", 2222, ("ssh-ed25519 AAAA",)),
        Gateway("2001:db8::1", 2222, ("k",)),
    )
