"""The settings of the edge: what each text in the environment becomes, and the errors of invalid ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge.process.settings import Limits, SettingError, Settings, from_environment


def test_without_variables_each_setting_has_its_default() -> None:
    assert from_environment({}) == Settings()
    assert Settings().limits == Limits()


@pytest.mark.parametrize(
    ("variable", "text", "setting", "value"),
    [
        ("TUNNEL_DOMAIN", "Tunnels.Example.COM.", "tunnel_domain", "tunnels.example.com"),
        ("EDGE_HOST", "192.0.2.1", "host", "192.0.2.1"),
        ("SSH_PORT", "22", "ssh_port", 22),
        ("EDGE_PORT", "65535", "edge_port", 65535),
        ("HOP_PORT", "0", "hop_port", 0),
        ("TCP_PORTS", "20000-20099", "tcp_ports", range(20000, 20100)),
        ("TCP_PORTS", "20000", "tcp_ports", range(20000, 20001)),
        ("EDGE_DIR", "/edge", "directory", Path("/edge")),
        ("LOCAL_DIR", "/local", "directory", Path("/local/edge")),
        ("LOCAL_DIR", "", "directory", Path(".local/edge")),
        ("ENVOY", "envoy", "envoy", "envoy"),
        ("ENVOY", "bin/envoy", "envoy", str(Path.cwd() / "bin/envoy")),
        ("ACCESS_LOG", "/var/log/edge", "access_log", "/var/log/edge"),
        ("DNS_SERVERS", "127.0.0.1", "dns_servers", (("127.0.0.1", 53),)),
        (
            "DNS_SERVERS",
            "127.0.0.1:5353, 127.0.0.2:5353",
            "dns_servers",
            (("127.0.0.1", 5353), ("127.0.0.2", 5353)),
        ),
        ("DNS_SERVERS", "[::1]:5353,[::1]", "dns_servers", (("::1", 5353), ("::1", 53))),
        ("DNS_SERVERS", "", "dns_servers", ()),
        ("PROXY_PROTOCOL_FROM", "10.0.0.0/8, 192.0.2.1", "proxy_protocol_from", ("10.0.0.0/8", "192.0.2.1/32")),
        ("SSH_PROXY_PROTOCOL_FROM", "10.0.0.0/8", "ssh_proxy_protocol_from", ("10.0.0.0/8",)),
        ("SSH_HOST_KEY", "/etc/key", "ssh_host_key", "/etc/key"),
        ("EDGE_INSTANCE", "b", "instance", "b"),
        ("DRAIN_TIMEOUT", "60", "limits", Limits(drain_timeout=60)),
        ("METRICS_BY", "gateway", "metrics_by", "gateway"),
        ("METRICS_BY", "sign-in", "metrics_by", "sign-in"),
        ("SIGN_IN_PORT", "4440", "sign_in_port", 4440),
        (
            "SIGN_IN_HOSTS",
            "10.0.0.5:4440, sign-in.edge.internal:4440,[FD00::1]:4440",
            "sign_in_hosts",
            (("10.0.0.5", 4440), ("sign-in.edge.internal", 4440), ("fd00::1", 4440)),
        ),
        ("ABUSE_CONTACT", "é" * 127, "abuse_contact", "é" * 127),
        ("MAX_CONNECTIONS", "7", "limits", Limits(max_connections=7)),
        ("LEASE", "", "limits", Limits()),
    ],
)
def test_a_setting_is_read_from_its_variable(variable: str, text: str, setting: str, value: Any) -> None:
    assert from_environment({variable: text}) == Settings(**{setting: value})


PAIR = "EDGE_CERTIFICATE and EDGE_KEY belong together: set both or neither."


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("SSH_PORT", "0", "SSH_PORT=0 is not a port: choose one from 1 to 65535."),
        ("SSH_PORT", "٢٢", "SSH_PORT=٢٢ is not a port: choose one from 1 to 65535."),
        ("HOP_PORT", "65536", "HOP_PORT=65536 is not a port: choose one from 0 to 65535."),
        ("HOP_PORT", "-1", "HOP_PORT=-1 is not a port: choose one from 0 to 65535."),
        ("EDGE_CERTIFICATE", "a.pem", PAIR),
        ("EDGE_KEY", "a.pem", PAIR),
        (
            "DNS_SERVERS",
            "127.0.0.1:5353,ns.example",
            "DNS_SERVERS names ns.example, which is not an address: write it like 127.0.0.1:5353 or [::1]:53.",
        ),
        ("DNS_SERVERS", "127.0.0.1:0", "DNS_SERVERS=0 is not a port: choose one from 1 to 65535."),
        (
            "PROXY_PROTOCOL_FROM",
            "10.0.0.0/8,10.0.0.1/8",
            "PROXY_PROTOCOL_FROM names 10.0.0.1/8, which is not a network: write it like 10.0.0.0/8.",
        ),
        (
            "SSH_PROXY_PROTOCOL_FROM",
            "lb.example.com",
            "SSH_PROXY_PROTOCOL_FROM names lb.example.com, which is not a network: write it like 10.0.0.0/8.",
        ),
        *(
            (
                "SIGN_IN_HOSTS",
                text,
                f"SIGN_IN_HOSTS names {text}, which is not a host with a port: write it like 10.0.0.5:4440.",
            )
            for text in ("10.0.0.5", "a b:4440", ":4440", "https://sign-in:4440")
        ),
        ("SIGN_IN_HOSTS", "10.0.0.5:0", "SIGN_IN_HOSTS=0 is not a port: choose one from 1 to 65535."),
        ("EDGE_INSTANCE", "c", "EDGE_INSTANCE=c must be a or b: correct it or unset it."),
        (
            "HOP_PORT",
            "65531",
            "HOP_PORT=65531 is too high: choose at most 65530, since gateways also use the five ports after it.",
        ),
        (
            "TUNNEL_DOMAIN",
            "tunnels",
            "TUNNEL_DOMAIN=tunnels is invalid: it must be a domain, for example app.example.com or *.example.com.",
        ),
        (
            "TCP_PORTS",
            "20099-20000",
            "TCP_PORTS=20099-20000 is not a range of ports: write it like 20000-20099, or name one port.",
        ),
        (
            "METRICS_BY",
            "envoy",
            "METRICS_BY must be control, or gateway or sign-in on a host that runs only this process.",
        ),
        (
            "ABUSE_CONTACT",
            "é" * 128,
            "ABUSE_CONTACT must be one line of at most 255 bytes, for example an email address.",
        ),
        ("ABUSE_CONTACT", "a\nb", "ABUSE_CONTACT must be one line of at most 255 bytes, for example an email address."),
        ("LEASE", "0", "LEASE=0 must be a whole number of at least 1."),
        ("MAX_HEAP_MIB", "1.5", "MAX_HEAP_MIB=1.5 must be a whole number of at least 1."),
    ],
)
def test_an_invalid_setting_is_named_in_one_sentence(variable: str, text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as error:
        from_environment({variable: text})
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (Settings(), "127.0.0.1:2222"),
        (Settings(host="::1"), "127.0.0.1:2222"),
        (Settings(host="localhost", ssh_port=22), "127.0.0.1:22"),
        (Settings(host="0.0.0.0", tunnel_domain="t.example.com"), "t.example.com:2222"),
        (Settings(host="edge.example.com", tunnel_domain="t.example.com", ssh_port=22), "t.example.com:22"),
        (Settings(ssh_address="ssh.example.com:443"), "ssh.example.com:443"),
    ],
)
def test_the_address_of_the_gateway_for_ssh_clients(settings: Settings, address: str) -> None:
    assert settings.public_ssh_address == address


@pytest.mark.parametrize(("port", "url"), [(443, "https://a.example.com"), (8443, "https://a.example.com:8443")])
def test_the_url_of_a_name_has_a_port_only_if_it_is_not_the_default(port: int, url: str) -> None:
    assert Settings(edge_port=port).url("a.example.com") == url


@pytest.mark.parametrize(("variables", "folder"), [({"LINK_DIR": "near"}, Path.cwd() / "near"), ({}, Path("/edge"))])
def test_the_socket_of_a_gateway_lies_in_its_folder(variables: dict[str, str], folder: Path) -> None:
    assert from_environment({"EDGE_DIR": "/edge", **variables}).link_socket("gw-1") == folder / "gw-1.sock"


@pytest.mark.parametrize(
    ("variable", "sockets"),
    [
        ("SIGN_IN_DIR", lambda settings: [settings.sign_in_socket, settings.sign_in_metrics_socket]),
        ("ISSUER_DIR", lambda settings: [settings.issuer_metrics_socket]),
    ],
)
def test_the_sockets_of_another_process_lie_in_its_folder(
    variable: str, sockets: Callable[[Settings], list[Path]]
) -> None:
    assert {socket.parent for socket in sockets(from_environment({"EDGE_DIR": "/edge"}))} == {Path("/edge")}
    other = from_environment({"EDGE_DIR": "/edge", variable: "near"})
    assert {socket.parent for socket in sockets(other)} == {Path.cwd() / "near"}


def test_files_are_in_the_folder_of_the_edge_unless_set() -> None:
    settings = Settings(directory=Path("/edge"))
    chosen = Settings(directory=Path("/edge"), access_log="/log", gateway_metrics="/run/m.sock")
    assert (settings.discovery_socket, settings.access_log_file) == (Path("/edge/discovery.sock"), "/edge/access.log")
    assert settings.gateway_sockets == {
        "": Path("/edge/gateway-metrics.sock"),
        "a": Path("/edge/gateway-metrics-a.sock"),
        "b": Path("/edge/gateway-metrics-b.sock"),
    }
    assert chosen.access_log_file == "/log"
    assert chosen.gateway_sockets == {"": Path("/run/m.sock"), "a": Path("/run/m-a.sock"), "b": Path("/run/m-b.sock")}


def test_two_instances_share_no_file_and_no_link_port() -> None:
    both = [Settings(directory=Path("/edge"), hop_port=4000, instance=instance) for instance in ("a", "b")]
    assert [settings.own_file("usage.json") for settings in both] == [
        Path("/edge/usage-a.json"),
        Path("/edge/usage-b.json"),
    ]
    assert [[settings.link_port(stage) for stage in range(3)] for settings in both] == [
        [4000, 4001, 4002],
        [4003, 4004, 4005],
    ]
    assert Settings(directory=Path("/edge"), hop_port=4000).own_file("usage.json") == Path("/edge/usage.json")
    assert Settings(instance="b").link_port(2) == 0
