"""What an `ssh -R` may ask for, as a table."""

from dataclasses import replace

import pytest

from chalicelib.model.names.base_names import OPERATOR_NAMES
from edge.process.settings import Limits, Settings
from edge.ssh import forwarding
from edge.ssh.forwarding import LabelledTunnel, NamedTunnel, PortTunnel, Requester, TunnelRefused
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    NameUnreadable,
    Opening,
    PolicyUnknown,
    TooManyTunnels,
    Unavailable,
)

DOMAIN = "t.example.com"
SETTINGS = Settings(tunnel_domain=DOMAIN, edge_port=8443, tcp_ports=range(20000, 20100))
OTHER_PORTS = "80 (https) or 443 (TLS passthrough)."
RESERVED = sorted(OPERATOR_NAMES - {"localhost"})  # which is also ssh's word for no name
FIFTY = ",".join(f"k{number:02}=v" for number in range(50))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("demo", NamedTunnel("demo.t.example.com")),
        ("DEMO", NamedTunnel("demo.t.example.com")),
        ("demo.t.example.com", NamedTunnel("demo.t.example.com")),
        ("Demo.T.example.com", NamedTunnel("demo.t.example.com")),
        ("demo.t.example.com.", NamedTunnel("demo.t.example.com")),
        ("a", NamedTunnel("a.t.example.com")),
        ("a-1", NamedTunnel("a-1.t.example.com")),
        ("x" * 63, NamedTunnel(f"{'x' * 63}.t.example.com")),
        ("demo.other.com", NamedTunnel("demo.other.com")),
        ("Demo.Other.com.", NamedTunnel("demo.other.com")),
        ("xn--bcher-kva.example", NamedTunnel("xn--bcher-kva.example")),
        ("nott.example.com", NamedTunnel("nott.example.com")),
        *((host, NamedTunnel("")) for host in ("", "*", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::")),
        ("app=web", LabelledTunnel((("app", "web"),))),
        ("b=2,a=1", LabelledTunnel((("a", "1"), ("b", "2")))),
        ("a=1,a=2", LabelledTunnel((("a", "2"),))),
        ("App=Web", LabelledTunnel((("App", "Web"),))),
        ("a=b=c", LabelledTunnel((("a", "b=c"),))),
        (FIFTY, LabelledTunnel(tuple((f"k{number:02}", "v") for number in range(50)))),
        (f"{'k' * 255}={'v' * 255}", LabelledTunnel((("k" * 255, "v" * 255),))),
    ],
)
def test_a_host_is_a_name_or_labels(host: str, expected: NamedTunnel | LabelledTunnel) -> None:
    assert forwarding.parse_request(host, 80, SETTINGS) == expected


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("demo", 443, NamedTunnel("demo.t.example.com", "tls")),
        ("demo.other.com", 443, NamedTunnel("demo.other.com", "tls")),
        ("localhost", 443, NamedTunnel("", "tls")),
        ("localhost", 0, PortTunnel(0)),
        ("", 20000, PortTunnel(20000)),
        ("*", 20099, PortTunnel(20099)),
        ("T.example.com.", 20022, PortTunnel(20022)),
    ],
)
def test_a_port_says_what_visitors_speak(host: str, port: int, expected: NamedTunnel | PortTunnel) -> None:
    assert forwarding.parse_request(host, port, SETTINGS) == expected


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        *(
            (host, port, f"Port {port} is not served here: request a port from 20000 to 20099, 0, or {OTHER_PORTS}")
            for host, port in (("", 22), ("demo", 81), ("app=web", 81), ("", 19999), ("", 20100))
        ),
        ("demo", 20022, "A TCP port belongs to the whole domain and has no name: write -R 20022:…."),
        ("demo.t.example.com", 0, "A TCP port belongs to the whole domain and has no name: write -R 0:…."),
        ("app=web", 443, "A tunnel with labels must request port 80, whatever its protocol."),
        ("a_b", 80, "a_b is not a tunnel name"),
        ("-a", 80, "-a is not a tunnel name"),
        ("a-", 80, "a- is not a tunnel name"),
        ("x" * 64, 80, f"{'x' * 64} is not a tunnel name"),
        (
            "a.b.t.example.com",
            80,
            "a.b.t.example.com is not a tunnel name: use letters",
        ),
        ("t.example.com", 80, "t.example.com is not a tunnel name"),
        ("*.other.com", 80, "*.other.com is not a tunnel name"),
        ("a..com", 80, "a..com is not a tunnel name"),
        ("192.0.2.1", 80, "192.0.2.1 is not a tunnel name"),
        ("dömo", 80, "dömo is not a tunnel name"),
        ("a\x1b[2J", 80, "a?[2J is not a tunnel name"),
        (f"{'é' * 100}", 80, f"{'é' * 80} is not a tunnel name"),
        *(
            (name, 80, f"The name {name} is reserved for the operator: choose another.")
            for name in sorted(OPERATOR_NAMES - {"localhost"})
        ),
        ("localhost.t.example.com", 80, "The name localhost is reserved"),
        ("xn--80ak6aa92e", 80, "The name xn--80ak6aa92e is reserved"),
        ("=x", 80, "=x is not a label: write name=value, with commas between several."),
        ("a=", 80, "a= is not a label"),
        ("a=1,b", 80, "a=1,b is not a label"),
        ("a=*", 80, "a=* is not a label"),
        ("*=a", 80, "*=a is not a label"),
        (f"{FIFTY},z=1", 80, "A tunnel can have at most 50 labels, not 51."),
        (f"{'k' * 256}=v", 80, "The name and the value of a label can each have at most 255 bytes."),
        (f"k={'é' * 128}", 80, "The name and the value of a label can each have at most 255 bytes."),
    ],
)
def test_what_is_not_offered_is_refused_with_a_sentence(host: str, port: int, sentence: str) -> None:
    with pytest.raises(TunnelRefused) as error:
        forwarding.parse_request(host, port, SETTINGS)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize("port", [0, 20022])
def test_where_no_ports_are_set_aside_none_is_served(port: int) -> None:
    with pytest.raises(TunnelRefused) as error:
        forwarding.parse_request("", port, replace(SETTINGS, tcp_ports=range(0)))
    assert str(error.value) == f"TCP ports are not served here: request port {OTHER_PORTS}"


def opening_of(host: str, *acl: str, port: int = 80) -> Opening:
    requester = Requester(Grant("acct_a", "sshcr_1", acl), "gw-1", "ts_1", "192.0.2.9", "SSH-2.0-x")
    return forwarding.build_opening(forwarding.parse_request(host, port, SETTINGS), requester, SETTINGS)


@pytest.mark.parametrize(
    ("acl", "host", "permitted"),
    [
        ((), "demo", True),
        (("bind:demo.t.example.com",), "DEMO", True),
        (("bind:demo.t.example.com",), "other", False),
        (("bind:demo",), "demo", False),
        (("bind:*.t.example.com",), "other", True),
        (("bind:*.t.example.com",), "", True),
        (("bind:demo.t.example.com",), "", False),
        (("bind:a=1",), "a=1", True),
        (("bind:a=*",), "a=2", True),
        (("bind:a=*",), "A=2", False),
        (("bind:a=*",), "a=1,b=2", False),
        (("bind:a=*", "bind:b=2"), "a=1,b=2", True),
        (("bind:*.t.example.com",), "a=1", False),
        (("bind:a=*",), "demo", False),
    ],
)
def test_a_credential_binds_what_its_rules_permit(acl: tuple[str, ...], host: str, permitted: bool) -> None:
    if permitted:
        assert opening_of(host, *acl).grant.acl == acl
    else:
        with pytest.raises(TunnelRefused, match=r"ACL of sshcr_1 (does not permit|permits no random name)"):
            opening_of(host, *acl)


def test_who_may_bind_no_name_of_chance_is_told_to_ask_for_one() -> None:
    with pytest.raises(
        TunnelRefused, match=r"^The ACL of sshcr_1 permits no random name: request a name, -R name:80:…\.$"
    ):
        opening_of("", "bind:demo.t.example.com")


@pytest.mark.parametrize("target", ["", "no name", "a=*", "*=a"])
@pytest.mark.parametrize("acl", [(), ("*",), ("bind:a=*",)])
def test_no_rule_permits_what_is_no_name_and_no_label(acl: tuple[str, ...], target: str) -> None:
    assert Grant("acct_a", "sshcr_1", acl).permits(target) is False


@pytest.mark.parametrize(
    ("acl", "port", "permitted"),
    [
        ((), 20022, True),
        (("bind:t.example.com:20022",), 20022, True),
        (("bind:t.example.com:20022",), 20023, False),
        (("bind:*.t.example.com", "bind:t.example.com"), 20022, False),
    ],
)
def test_a_credential_binds_the_ports_that_its_rules_permit(acl: tuple[str, ...], port: int, permitted: bool) -> None:
    if permitted:
        assert opening_of("", *acl, port=port).name == f"t.example.com:{port}"
    else:
        with pytest.raises(TunnelRefused, match=r"^The ACL of sshcr_1 does not permit t\.example\.com:20023|20022\.$"):
            opening_of("", *acl, port=port)


def test_a_port_of_chance_is_one_that_the_rules_permit() -> None:
    limited = Grant("acct_a", "sshcr_1", ("bind:t.example.com:20022", "bind:t.example.com:20050"))
    assert forwarding.list_addresses(limited, SETTINGS) == ["t.example.com:20022", "t.example.com:20050"]
    assert len(forwarding.list_addresses(replace(limited, acl=()), SETTINGS)) == 100
    with pytest.raises(
        TunnelRefused, match=r"^The ACL of sshcr_1 permits no random port: request a port, -R 20022:…\.$"
    ):
        forwarding.list_addresses(replace(limited, acl=("bind:*.t.example.com",)), SETTINGS)


def test_an_opening_says_who_asks_for_what() -> None:
    grant = Grant("acct_a", "sshcr_1", ())
    opening = Opening(grant, "gw-1", "ts_1", "192.0.2.9", address="192.0.2.9", client="SSH-2.0-x")
    assert opening_of("demo") == opening.with_name("demo.t.example.com", "https://demo.t.example.com:8443")
    tls = opening.with_name("demo.t.example.com", "tls://demo.t.example.com:8443", proto="tls")
    assert opening_of("demo", port=443) == tls
    tcp = opening.with_name("t.example.com:20022", "tcp://t.example.com:20022", proto="tcp")
    assert opening_of("", port=20022) == tcp
    assert [forwarding.get_port(address, port) for address, port in ((tls, 443), (tcp, 0), (tcp, 20022))] == [
        443,
        20022,
        20022,
    ]
    assert opening_of("b=2,a=1") == opening.with_labels((("a", "1"), ("b", "2")))
    names = {opening_of("").name for _ in range(20)}
    assert len(names) == 20
    assert [opening_of(host).is_random for host in ("", "demo", "a=1")] == [True, False, False]
    requester = Requester(grant, "gw-1", "ts_1", "192.0.2.9", "SSH-2.0-x")
    of_chance = forwarding.build_opening(PortTunnel(20022, is_random=True), requester, SETTINGS)
    assert (of_chance.name, of_chance.is_random, opening_of("", port=20022).is_random) == (tcp.name, True, False)
    assert all(len(name.removesuffix(".t.example.com")) == 10 for name in names)


@pytest.mark.parametrize(
    ("error", "sentence", "code", "final"),
    [
        (NameTaken(), "demo is in use already: choose another name.", "name_taken", False),
        (
            NameOfEdge(),
            "An edge of your account listens on demo: choose another name, or remove it from the edge.",
            "name_of_edge",
            True,
        ),
        (
            NameNotProved(),
            "Your account has not proved that it owns demo: reserve it and set its TXT record first.",
            "name_not_proved",
            True,
        ),
        (
            NameNotReserved(),
            "Your account can use only reserved names, and demo is not reserved: reserve it first.",
            "name_not_reserved",
            True,
        ),
        (
            NameUnreadable(),
            "The reservation of demo is malformed: contact the operator.",
            "name_unreadable",
            True,
        ),
        (
            PolicyUnknown(),
            "TUNNEL_IP_POLICIES names a policy that your account does not have: see GET /ip_policies.",
            "ip_policy_unknown",
            True,
        ),
        (NameBanned(), "The operator has banned demo: choose another name.", "name_banned", True),
        (
            TooManyTunnels(),
            "The limit of tunnels is reached (100 for an account): close one or try again later.",
            "too_many_tunnels",
            False,
        ),
        (
            Unavailable(),
            "The gateway cannot reach its store just now: try again in a moment.",
            "unavailable",
            False,
        ),
    ],
)
def test_why_the_store_opens_no_tunnel_is_a_sentence_and_a_code(
    error: Exception, sentence: str, code: str, final: bool
) -> None:
    refusal = forwarding.explain_error(error, "demo", Limits())
    assert (str(refusal), refusal.code, refusal.is_final) == (sentence, code, final)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NameTaken(), "t:1 is in use already: choose another port."),
        (NameOfEdge(), "An edge of your account listens on t:1: choose another port, or remove it from the edge."),
        (NameNotReserved(), "Your account can use only reserved ports, and t:1 is not reserved: reserve one first."),
        (NameBanned(), "The operator has banned t:1: choose another port."),
    ],
)
def test_why_a_port_is_not_given_is_a_sentence(error: Exception, sentence: str) -> None:
    assert str(forwarding.explain_error(error, "t:1", Limits())) == sentence


@pytest.mark.parametrize(
    ("acl", "host", "port", "code"),
    [
        ((), "a_b", 80, "invalid_request"),
        ((), "www", 80, "invalid_request"),
        ((), "a=*", 80, "invalid_request"),
        ((), "", 22, "invalid_request"),
        (("bind:a.t.example.com",), "b", 80, "not_permitted"),
        (("bind:a.t.example.com",), "", 80, "not_permitted"),
    ],
)
def test_a_request_that_can_never_be_granted_is_refused_for_good(
    acl: tuple[str, ...], host: str, port: int, code: str
) -> None:
    with pytest.raises(TunnelRefused) as error:
        opening_of(host, *acl, port=port)
    assert (error.value.code, error.value.is_final) == (code, True)


def test_what_is_not_reserved_is_told_how_it_could_be() -> None:
    until = "{} is not reserved: others can use it when this client disconnects."
    assert (
        forwarding.advise_reservation("demo.t")
        == f'{until.format("demo.t")} To reserve it: POST /reserved_domains {{"domain": "demo.t"}}'
    )
    assert (
        forwarding.advise_reservation("t:1")
        == f"{until.format('t:1')} To reserve a permanent address: POST /reserved_addrs {{}}"
    )


def test_an_open_tunnel_is_shown_by_its_address_or_labels() -> None:
    assert forwarding.describe_tunnel("tn_1", opening_of("demo")) == "https://demo.t.example.com:8443 is online."
    assert forwarding.describe_tunnel("tn_1", opening_of("a=1,b=2")) == (
        "The backend tunnel tn_1 is online with a=1, b=2: tunnel groups with these labels use it."
    )


def test_a_port_that_an_edge_host_does_not_get_is_told_and_that_it_has_it_after_all() -> None:
    url = "tcp://t.example.com:20022"
    assert forwarding.describe_port(url, "") == f"{url} is open now."
    assert (
        forwarding.describe_port(url, "in use") == f"{url} is not open: in use. The edge tries again every few seconds."
    )
