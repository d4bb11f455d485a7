"""Which tunnel and which certificate answer a host name, as rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.plan.record_index import Removed, Update
from edge.plan.world import OPERATOR, Site, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UP, DOWN = Gateway("gw-1", "192.0.2.1", 4433), "gw-2"
TUNNEL = ServedTunnel("acct_a", "tn_1", "gw-1", "a.example.com")


def certificate(id: str, *names: str, account: str = "acct_a", since: int = -1, until: int = 1) -> ServedCertificate:
    return ServedCertificate(account, id, "", names, NOW + since * DAY, NOW + until * DAY)


CERTIFICATE, WILDCARD = certificate("cert_1", "a.example.com"), certificate("cert_2", "*.example.com", until=9)
MINE = ServedReservation("acct_a", "rd_1", "a.example.com", True)
ABOVE = ServedReservation("acct_a", "rd_2", "*.example.com", True)


def known(*facts: Update, domain: str = "example.com") -> World:
    """Return a world in which these are known, and all certificates of all accounts."""
    made = World(domain)
    for fact in facts:
        made.apply(fact)
    for account in made.accounts():
        made.set_ready(account, made.hosts_of_account(account))
    return made


@pytest.mark.parametrize(
    ("domain", "held", "served_under"),
    [
        ("example.com", (), OPERATOR),  # below TUNNEL_DOMAIN
        ("example.com", (CERTIFICATE,), "cert_1"),
        ("example.com", (CERTIFICATE, WILDCARD), "cert_1"),
        ("example.com", (CERTIFICATE, WILDCARD, replace(MINE, certificate_id="cert_2")), "cert_2"),
        ("example.com", (CERTIFICATE, WILDCARD, replace(ABOVE, certificate_id="cert_2")), "cert_2"),
        ("example.com", (CERTIFICATE, WILDCARD, replace(ABOVE, certificate_id="cert_2"), MINE), "cert_1"),
        ("example.com", (CERTIFICATE, WILDCARD, replace(MINE, account="acct_b", certificate_id="cert_2")), "cert_1"),
        ("example.com", (replace(CERTIFICATE, account="acct_b"),), OPERATOR),
        ("tunnels.localhost", (MINE,), None),
        ("tunnels.localhost", (MINE, CERTIFICATE), "cert_1"),
        ("tunnels.localhost", (CERTIFICATE,), None),
        ("tunnels.localhost", (replace(MINE, is_proved=False), CERTIFICATE), None),
        ("tunnels.localhost", (replace(MINE, account="acct_b"), CERTIFICATE), None),
        ("tunnels.localhost", (ABOVE, CERTIFICATE), "cert_1"),
        ("tunnels.localhost", (ABOVE, replace(MINE, account="acct_b"), CERTIFICATE), None),
        ("tunnels.localhost", (MINE, replace(ABOVE, account="acct_b"), CERTIFICATE), "cert_1"),
        ("tunnels.localhost", (replace(MINE, certificate_id="cert_2"), CERTIFICATE, WILDCARD), "cert_2"),
    ],
)
def test_a_name_is_served_to_whom_it_belongs_under_that_accounts_certificate(
    domain: str, held: tuple[Update, ...], served_under: str | None
) -> None:
    site = known(UP, TUNNEL, *held, domain=domain).site("a.example.com", NOW)
    is_reserved = any(isinstance(it, ServedReservation) and it.account == TUNNEL.account for it in held)
    refuses_challenges = domain == "example.com" and not is_reserved
    expected = Site("a.example.com", TUNNEL, served_under or "", refuses_challenges=refuses_challenges)
    assert site == (expected if served_under else None)


@pytest.mark.parametrize(
    ("proved", "host", "owner"),
    [
        ((), "a.example.com", None),
        (("a example.com",), "example.com", "a"),
        (("a example.com",), "x.example.com", None),
        (("a *.example.com",), "example.com", None),
        (("a *.example.com",), "x.example.com", "a"),
        (("a *.example.com",), "y.x.example.com", "a"),
        (("a *.example.com",), "*.example.com", "a"),
        (("a *.example.com",), "*.x.example.com", "a"),
        (("a *.example.com",), "xexample.com", None),
        (("a *.example.com", "b *.x.example.com"), "y.x.example.com", "b"),
        (("a *.example.com", "b *.x.example.com"), "x.example.com", "a"),
        (("a *.example.com", "b x.example.com"), "x.example.com", "b"),
        (("a *.example.com", "b x.example.com"), "y.x.example.com", "a"),
        (("a *.example.com", "b y.x.example.com", "c *.x.example.com"), "y.x.example.com", "b"),
        (("a x.example.com", "b x.example.com"), "x.example.com", None),
        (("a x.example.com", "a x.example.com"), "x.example.com", "a"),
    ],
)
def test_the_longest_proved_domain_says_whose_a_host_is(proved: tuple[str, ...], host: str, owner: str | None) -> None:
    made = World("tunnels.localhost")
    for place, (account, _, domain) in enumerate(text.partition(" ") for text in proved):
        made.apply(ServedReservation(account, f"rd_{place}", domain, True))
        made.apply(ServedReservation(f"not {account}", f"rd_not{place}", host, False))
    assert made.owner_of(host) == owner
    assert made.may_serve("a", host) is (owner == "a")
    assert made.may_serve("anybody", "x.tunnels.localhost") is True


@pytest.mark.parametrize(
    ("facts", "answers"),
    [
        ((UP,), None),
        ((TUNNEL,), None),
        ((UP, TUNNEL), "tn_1"),
        ((UP, replace(TUNNEL, gateway=DOWN)), None),
        ((UP, replace(TUNNEL, name="b.example.com")), None),
        ((UP, TUNNEL, replace(TUNNEL, id="tn_2")), "tn_2"),
        ((UP, replace(TUNNEL, id="tn_2"), TUNNEL), "tn_2"),
        ((UP, TUNNEL, replace(TUNNEL, id="tn_2", gateway=DOWN)), "tn_1"),
        ((UP, TUNNEL, Removed("tn_1")), None),
        ((UP, TUNNEL, Removed("gw-1")), None),
        ((UP, TUNNEL, Removed("gw-1"), UP), "tn_1"),
        ((UP, TUNNEL, Removed("tn_2")), "tn_1"),
        ((UP, TUNNEL, replace(TUNNEL, id="tn_2"), Removed("tn_2")), "tn_1"),
    ],
)
def test_the_newest_tunnel_of_a_name_answers_whose_gateway_is_up(
    facts: tuple[Update, ...], answers: str | None
) -> None:
    site = known(*facts).site("a.example.com", NOW)
    assert (site.tunnel.id if site else None) == answers


def test_a_name_is_not_served_before_the_certificates_of_its_account_are_known() -> None:
    made, other = World("example.com"), replace(TUNNEL, id="tn_2", name="b.example.com")
    for fact in (UP, TUNNEL, other):
        made.apply(fact)
    assert (made.is_waiting(TUNNEL), made.site("a.example.com", NOW)) == (True, None)
    assert made.set_ready("acct_a", frozenset({"a.example.com"})) == {"a.example.com"}
    assert (made.is_waiting(TUNNEL), made.is_waiting(other)) == (False, True)
    assert made.site("a.example.com", NOW)
    assert made.set_ready("acct_a", frozenset({"a.example.com", "b.example.com"})) == {"b.example.com"}
    assert made.ready_hosts("acct_a") == {"a.example.com", "b.example.com"}
    assert made.ready_hosts("acct_b") == frozenset()


@pytest.mark.parametrize(
    ("fact", "touched"),
    [
        (TUNNEL, set()),
        (replace(TUNNEL, expires=7), set()),
        (UP, set()),
        (replace(UP, port=1), {"a.example.com", "b.example.com"}),
        (Removed("gw-1"), {"a.example.com", "b.example.com"}),
        (Removed("gw-9"), set()),
        (Removed("tn_1"), {"a.example.com"}),
        (replace(TUNNEL, name="c.example.com"), {"a.example.com", "c.example.com"}),
        (replace(TUNNEL, id="tn_3"), {"a.example.com"}),
        (certificate("cert_1", "b.example.com"), {"b.example.com"}),
        (certificate("cert_1", "*.example.com"), {"a.example.com", "b.example.com"}),
        (certificate("cert_1", "*.example.com", account="acct_b"), set()),
        (Removed("cert_0"), {"b.example.com"}),
        (MINE, {"a.example.com"}),
        (ABOVE, {"a.example.com", "b.example.com"}),
        (replace(MINE, account="acct_b"), {"a.example.com"}),
        (replace(MINE, domain="example.com"), set()),
        (replace(ABOVE, domain="*.ample.com"), set()),
        (certificate("cert_0", "a.example.com"), {"a.example.com", "b.example.com"}),
    ],
)
def test_a_fact_touches_the_names_for_which_it_matters(fact: Update, touched: set[str]) -> None:
    other = replace(TUNNEL, id="tn_2", name="b.example.com")
    assert known(UP, TUNNEL, other, certificate("cert_0", "b.example.com")).apply(fact) == touched


def test_a_certificate_that_cannot_be_used_leaves_those_before_it_until_it_is_another() -> None:
    made = known(UP, TUNNEL, CERTIFICATE, WILDCARD)
    assert made.reject_certificate("cert_9", "no") == frozenset()
    assert made.reject_certificate("cert_1", "no") == {"a.example.com"}
    assert made.reject_certificate("cert_1", "no again") == frozenset()
    assert made.site("a.example.com", NOW) == Site("a.example.com", TUNNEL, "cert_2", refuses_challenges=True)
    assert [made.certificate_error("acct_a", host) for host in ("a.example.com", "b.example.com")] == ["no", ""]
    assert made.certificate_error("acct_b", "a.example.com") == ""
    made.apply(replace(CERTIFICATE, not_after=NOW + 2 * DAY))
    assert (made.certificate_error("acct_a", "a.example.com"), made.certificate("acct_a", "a.example.com", NOW)) == (
        "",
        "cert_1",
    )


@pytest.mark.parametrize(
    ("account", "hosts", "found"),
    [
        ("acct_a", [], []),
        ("acct_a", ["x.tunnels.localhost"], ["rd_x"]),
        ("acct_b", ["x.tunnels.localhost"], []),  # below TUNNEL_DOMAIN an account knows its own alone
        ("acct_b", ["a.example.com"], ["rd_1", "rd_2"]),
        ("acct_a", ["b.example.com"], ["rd_2"]),
        ("acct_a", ["x.a.example.com"], ["rd_2"]),
        ("acct_a", ["*.example.com"], ["rd_1", "rd_2"]),
        ("acct_a", ["example.com", "example.org"], []),
        ("acct_a", ["a.example.com", "x.tunnels.localhost"], ["rd_1", "rd_2", "rd_x"]),
    ],
)
def test_the_reservations_for_hosts_are_an_account_s_own_or_all_at_a_domain_that_is_proved(
    account: str, hosts: list[str], found: list[str]
) -> None:
    held = replace(MINE, id="rd_x", domain="x.tunnels.localhost")
    made = known(MINE, ABOVE, held, domain="tunnels.localhost")
    assert sorted(it.id for it in made.reservations_for(account, hosts)) == found


def test_a_wildcard_leaves_alone_what_others_have_below_it_and_may_serve() -> None:
    other = replace(TUNNEL, account="acct_b", id="tn_2")
    made = known(MINE, UP, TUNNEL, other, domain="tunnels.localhost")
    assert made.names_below("example.com") == ["a.example.com"]
    made.apply(Removed("tn_1"))
    assert made.names_below("example.com") == []


def test_what_is_gone_leaves_nothing() -> None:
    made = known(UP, TUNNEL, certificate("cert_1", "a.example.com"), MINE)
    assert [made.find(id) for id in ("gw-1", "tn_1")] == [UP, TUNNEL]
    assert (made.tunnels_of_gateway("gw-1"), [it.id for it in made.certificates_of("acct_a")]) == ([TUNNEL], ["cert_1"])
    for id in ("tn_1", "gw-1", "cert_1", "rd_1"):
        made.apply(Removed(id))
    assert (made.accounts(), made.tunnels_of_gateway("gw-1"), made.certificates_of("acct_a")) == ([], [], [])
    assert (made.gateways, made.tunnels, made.certificates, made.find("tn_1")) == ({}, {}, {}, None)
    assert (made.reservations, made.owner_of("a.example.com")) == ({}, None)
