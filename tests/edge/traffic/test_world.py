"""Which tunnel and which certificate answer a host name, as rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.model.gateways import Gateway
from chalicelib.model.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import Carried
from edge.traffic import world
from edge.traffic.world import OPERATOR, Fact, Gone, Site, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UP, DOWN = Gateway("gw-1", "192.0.2.1", 4433), "gw-2"
TUNNEL = Carried("acct_a", "tn_1", "gw-1", "a.example.com")


def certificate(id: str, *names: str, account: str = "acct_a", since: int = -1, until: int = 1) -> ServedCertificate:
    return ServedCertificate(account, id, "", names, NOW + since * DAY, NOW + until * DAY)


def known(*facts: Fact) -> World:
    """Return a world in which these are known, and all certificates of all accounts."""
    made = World()
    for fact in facts:
        made.take(fact)
    for account in made.accounts():
        made.ready(account, made.names_of(account))
    return made


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("a.example.com", "a.example.com", True),
        ("A.Example.Com", "a.example.com", True),
        ("a.example.com", "b.a.example.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.EXAMPLE.com", "a.example.com", True),
        ("*.example.com", "b.a.example.com", False),
        ("*.example.com", "example.com", False),
        ("*.example.com", "aexample.com", False),
        ("*", "a", False),
        ("a*.example.com", "ab.example.com", False),
    ],
)
def test_a_wildcard_is_one_label(pattern: str, name: str, covered: bool) -> None:
    assert world.covers(pattern, name) is covered


@pytest.mark.parametrize(
    ("certificates", "chosen"),
    [
        ((), OPERATOR),
        ((certificate("cert_1", "a.example.com"),), "cert_1"),
        ((certificate("cert_1", "x.example.com", "*.example.com"),), "cert_1"),
        ((certificate("cert_1", "b.example.com"),), OPERATOR),
        ((certificate("cert_1", "a.example.com", until=0),), OPERATOR),
        ((certificate("cert_1", "a.example.com", since=0),), "cert_1"),
        ((certificate("cert_1", "a.example.com", since=1, until=2),), OPERATOR),
        ((certificate("cert_1", "a.example.com", until=3), certificate("cert_2", "*.example.com", until=2)), "cert_1"),
        ((certificate("cert_1", "a.example.com", until=2), certificate("cert_2", "*.example.com", until=3)), "cert_2"),
        ((certificate("cert_2", "a.example.com"), certificate("cert_1", "a.example.com")), "cert_2"),
        ((certificate("cert_9", "a.example.com", until=-1), certificate("cert_1", "a.example.com")), "cert_1"),
        ((certificate("cert_1", "a.example.com", account="acct_b"),), OPERATOR),
    ],
)
def test_of_an_accounts_certificates_that_cover_a_name_the_one_that_runs_longest_serves_it(
    certificates: tuple[ServedCertificate, ...], chosen: str
) -> None:
    assert known(UP, TUNNEL, *certificates).site("a.example.com", NOW) == Site("a.example.com", TUNNEL, chosen)


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
        ((UP, TUNNEL, Gone("tn_1")), None),
        ((UP, TUNNEL, Gone("gw-1")), None),
        ((UP, TUNNEL, Gone("gw-1"), UP), "tn_1"),
        ((UP, TUNNEL, Gone("tn_2")), "tn_1"),
        ((UP, TUNNEL, replace(TUNNEL, id="tn_2"), Gone("tn_2")), "tn_1"),
    ],
)
def test_the_newest_tunnel_of_a_name_answers_whose_gateway_is_up(facts: tuple[Fact, ...], answers: str | None) -> None:
    site = known(*facts).site("a.example.com", NOW)
    assert (site.tunnel.id if site else None) == answers


def test_a_name_is_not_served_before_the_certificates_of_its_account_are_known() -> None:
    made, other = World(), replace(TUNNEL, id="tn_2", name="b.example.com")
    for fact in (UP, TUNNEL, other):
        made.take(fact)
    assert (made.waits(TUNNEL), made.site("a.example.com", NOW)) == (True, None)
    assert made.ready("acct_a", frozenset({"a.example.com"})) == {"a.example.com"}
    assert (made.waits(TUNNEL), made.waits(other)) == (False, True)
    assert made.site("a.example.com", NOW)
    assert made.ready("acct_a", frozenset({"a.example.com", "b.example.com"})) == {"b.example.com"}
    assert made.ready_of("acct_a") == {"a.example.com", "b.example.com"}
    assert made.ready_of("acct_b") == frozenset()


@pytest.mark.parametrize(
    ("fact", "touched"),
    [
        (TUNNEL, set()),
        (replace(TUNNEL, expires=7), set()),
        (UP, set()),
        (replace(UP, port=1), {"a.example.com", "b.example.com"}),
        (Gone("gw-1"), {"a.example.com", "b.example.com"}),
        (Gone("gw-9"), set()),
        (Gone("tn_1"), {"a.example.com"}),
        (replace(TUNNEL, name="c.example.com"), {"a.example.com", "c.example.com"}),
        (replace(TUNNEL, id="tn_3"), {"a.example.com"}),
        (certificate("cert_1", "b.example.com"), {"b.example.com"}),
        (certificate("cert_1", "*.example.com"), {"a.example.com", "b.example.com"}),
        (certificate("cert_1", "*.example.com", account="acct_b"), set()),
        (Gone("cert_0"), {"b.example.com"}),
        (certificate("cert_0", "a.example.com"), {"a.example.com", "b.example.com"}),
    ],
)
def test_a_fact_touches_the_names_for_which_it_matters(fact: Fact, touched: set[str]) -> None:
    other = replace(TUNNEL, id="tn_2", name="b.example.com")
    assert known(UP, TUNNEL, other, certificate("cert_0", "b.example.com")).take(fact) == touched


def test_what_is_gone_leaves_nothing() -> None:
    made = known(UP, TUNNEL, certificate("cert_1", "a.example.com"))
    assert [made.known(id) for id in ("gw-1", "tn_1")] == [UP, TUNNEL]
    assert (made.carried_by("gw-1"), [it.id for it in made.certificates_of("acct_a")]) == ([TUNNEL], ["cert_1"])
    for id in ("tn_1", "gw-1", "cert_1"):
        made.take(Gone(id))
    assert (made.accounts(), made.carried_by("gw-1"), made.certificates_of("acct_a")) == ([], [], [])
    assert (made.gateways, made.tunnels, made.certificates, made.known("tn_1")) == ({}, {}, {}, None)
