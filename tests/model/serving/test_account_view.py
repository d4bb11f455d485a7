"""Which tunnel and which certificate answer a host name, as rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from tests.edge.plan import worlds
from tests.edge.plan.worlds import Record, records_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UP, DOWN = Gateway("gw-1", "192.0.2.1", 4433), "gw-2"
TUNNEL = ServedTunnel("acct_a", "tn_1", "gw-1", "a.example.com")


def certificate(id: str, *names: str, account: str = "acct_a", since: int = -1, until: int = 1) -> ServedCertificate:
    return ServedCertificate(account, id, "", names, NOW + since * DAY, NOW + until * DAY)


CERTIFICATE, WILDCARD = certificate("cert_1", "a.example.com"), certificate("cert_2", "*.example.com", until=9)
MINE = ServedReservation("acct_a", "rd_1", "a.example.com", True)
ABOVE = ServedReservation("acct_a", "rd_2", "*.example.com", True)


def view(*records: Record, domain: str = "example.com", account: str = "acct_a", **rejected: str) -> AccountView:
    """Return the decisions about an account's names. `rejected` are Envoy's errors by certificate id."""
    service = Service(domain, operator_names=frozenset({domain, f"*.{domain}"}))
    return AccountView(records_of(*records, account=account, rejected=rejected), service)


@pytest.mark.parametrize(
    ("domain", "records", "expected"),
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
def test_a_tunnel_is_served_at_its_account_s_names_with_that_account_s_certificate(
    domain: str, records: tuple[Record, ...], expected: str | None
) -> None:
    site = view(UP, TUNNEL, *records, domain=domain).site("a.example.com", NOW)
    is_reserved = any(isinstance(record, ServedReservation) and record.account == TUNNEL.account for record in records)
    refuses_challenges = domain == "example.com" and not is_reserved
    served = Site("a.example.com", TUNNEL, expected or "", refuses_challenges=refuses_challenges)
    assert site == (served if expected else None)


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
def test_the_longest_proved_domain_decides_which_account_has_a_host(
    proved: tuple[str, ...], host: str, owner: str | None
) -> None:
    reservations: list[Record] = []
    for number, (account, _, domain) in enumerate(text.partition(" ") for text in proved):
        reservations.append(ServedReservation(account, f"rd_{number}", domain, True))
        reservations.append(ServedReservation(f"not {account}", f"rd_not{number}", host, False))
    account_view = view(*reservations, domain="tunnels.localhost", account="a")
    assert (account_view.owner_of(host), account_view.may_serve("a", host)) == (owner, owner == "a")
    assert [account_view.may_serve(account, "x.tunnels.localhost") for account in ("a", "b")] == [True, False]


@pytest.mark.parametrize(
    ("records", "tunnel"),
    [
        ((UP,), None),
        ((TUNNEL,), None),
        ((UP, TUNNEL), "tn_1"),
        ((UP, replace(TUNNEL, gateway=DOWN)), None),
        ((UP, replace(TUNNEL, name="b.example.com")), None),
        ((UP, replace(TUNNEL, account="acct_b")), None),
        ((UP, TUNNEL, replace(TUNNEL, id="tn_2")), "tn_2"),
        ((UP, replace(TUNNEL, id="tn_2"), TUNNEL), "tn_2"),
        ((UP, TUNNEL, replace(TUNNEL, id="tn_2", gateway=DOWN)), "tn_1"),
    ],
)
def test_the_newest_tunnel_of_a_name_with_a_live_gateway_answers(
    records: tuple[Record, ...], tunnel: str | None
) -> None:
    site = view(*records).site("a.example.com", NOW)
    assert (site.tunnel.id if site else None) == tunnel


@pytest.mark.parametrize(
    ("rejected", "certificate_id", "errors"),
    [
        ({}, "cert_1", ("", "")),
        ({"cert_1": "no"}, "cert_2", ("no", "")),
        ({"cert_2": "no"}, "cert_1", ("no", "no")),
        ({"cert_1": "first", "cert_2": "second"}, OPERATOR, ("first", "second")),
        ({"cert_9": "no"}, "cert_1", ("", "")),
    ],
)
def test_a_rejected_certificate_gives_way_to_the_next_one(
    rejected: dict[str, str], certificate_id: str, errors: tuple[str, str]
) -> None:
    account_view = view(UP, TUNNEL, CERTIFICATE, WILDCARD, **rejected)
    assert account_view.site("a.example.com", NOW) == Site(
        "a.example.com", TUNNEL, certificate_id, refuses_challenges=True
    )
    assert (
        tuple(account_view.certificate_error("acct_a", host) for host in ("a.example.com", "b.example.com")) == errors
    )


@pytest.mark.parametrize(("moment", "is_valid"), [(CERTIFICATE.not_after, False), (CERTIFICATE.not_before, True)])
def test_a_certificate_is_used_while_it_is_valid(moment: datetime, is_valid: bool) -> None:
    site = view(UP, TUNNEL, CERTIFICATE).site("a.example.com", moment)
    assert site
    assert site.certificate == ("cert_1" if is_valid else OPERATOR)


def test_the_names_below_a_domain_are_those_that_the_account_may_serve() -> None:
    other = replace(TUNNEL, id="tn_2", name="b.example.com")
    assert view(MINE, UP, TUNNEL, other, domain="tunnels.localhost").names_below("example.com") == ["a.example.com"]
    assert view(ABOVE, UP, TUNNEL, other, domain="tunnels.localhost").names_below("example.com") == [
        "a.example.com",
        "b.example.com",
    ]


@pytest.mark.parametrize(
    ("draining", "members"), [([], ["tn_1", "tn_2"]), (["gw-1"], ["tn_2"]), (["gw-1", "gw-2"], ["tn_1", "tn_2"])]
)
def test_a_group_uses_tunnels_of_draining_gateways_only_if_it_has_no_others(
    draining: list[str], members: list[str]
) -> None:
    gateways = [replace(worlds.GATEWAY, id=id, draining=id in draining) for id in ("gw-1", "gw-2")]
    tunnels = [worlds.tunnel("tn_1"), worlds.tunnel("tn_2", gateway="gw-2")]
    view = worlds.view_of(worlds.group(), *tunnels, *gateways)
    assert [member.id for member, _ in view.members(worlds.group())] == members
