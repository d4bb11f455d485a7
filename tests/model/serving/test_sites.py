"""Whom the reservations of a tunnel's name or port keep out, as a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy, parse_cidr
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import sites
from chalicelib.model.serving.account_view import AccountView
from chalicelib.model.serving.sites import ServedAddress
from tests.edge.plan import worlds
from tests.edge.plan.worlds import DOMAIN, GATEWAY, HOST, NOW, A, B, records_of

RULES = Rules(allow=(parse_cidr("192.0.2.0/24"),))
POLICY = ServedPolicy(A, "ipp_1", RULES)
NAMED = {"ip_restriction": {"enabled": True, "ip_policy_ids": ["ipp_1"]}}
OFF = {"ip_restriction": {"enabled": False, "ip_policy_ids": ["ipp_1"]}}
PASSWORDS = {"basic_auth": {"enabled": True, "usernames": ["ada"], "passwords": b"sealed"}}
OPEN: tuple[Condition, ...] = ()
SHUT = ip_policies.REFUSE_ALL
GONE = ip_policies.find_refusals(IpRestrictionModule(ip_policy_ids=["ipp_1"]), {})
BY_RULES = ip_policies.find_refusals(IpRestrictionModule(ip_policy_ids=["ipp_1"]), {"ipp_1": RULES})
MODULES: list[tuple[Mapping[str, Any], tuple[ServedPolicy, ...], tuple[Condition, ...]]] = [
    ({}, (POLICY,), OPEN),
    (OFF, (POLICY,), OPEN),
    (NAMED, (POLICY,), BY_RULES),
    (NAMED, (), GONE),
    (NAMED, (replace(POLICY, account=B),), GONE),
    (NAMED, (replace(POLICY, rules=None),), SHUT),
    (
        NAMED,
        (
            replace(
                POLICY, rules=Rules(tuple(parse_cidr(f"10.0.{number >> 8}.{number % 256}") for number in range(2001)))
            ),
        ),
        SHUT,
    ),
    ({"ip_restriction": {"ip_policy_ids": []}}, (POLICY,), SHUT),
    ({"ip_restriction": {"ip_policy_ids": "ipp_1"}}, (POLICY,), SHUT),
    ({"ip_restriction": "malformed"}, (POLICY,), SHUT),
    ({"of a later version": {"enabled": True}}, (POLICY,), SHUT),
    ({"of a later version": {"enabled": False}}, (POLICY,), OPEN),
]


@pytest.mark.parametrize(("modules", "policies", "refusals"), MODULES)
@pytest.mark.parametrize("proto", ["https", "tls"])
def test_a_reserved_domain_refuses_visitors_of_its_tunnels(
    modules: Mapping[str, Any], policies: tuple[ServedPolicy, ...], refusals: tuple[Condition, ...], proto: Any
) -> None:
    reservation = ServedReservation(A, "rd_1", HOST, True, modules=modules)
    view = worlds.view_of(GATEWAY, worlds.tunnel(name=HOST, proto=proto), reservation, *policies)
    site = view.site(HOST, NOW)
    assert site
    assert site.refusals == refusals


@pytest.mark.parametrize(("modules", "policies", "refusals"), MODULES)
def test_a_reserved_address_refuses_visitors_of_its_tunnels(
    modules: Mapping[str, Any], policies: tuple[ServedPolicy, ...], refusals: tuple[Condition, ...]
) -> None:
    records = replace(records_of(*policies), addresses={f"{DOMAIN}:20001": [ServedAddress(False, modules)]})
    view = AccountView(records, worlds.SERVICE)
    assert (view.refusals_at("20001"), view.refusals_at("20002")) == (refusals, OPEN)


def test_the_longest_reservation_of_the_account_decides() -> None:
    above = ServedReservation(A, "rd_1", f"*.{DOMAIN}", True, modules=NAMED)
    reservation = ServedReservation(A, "rd_2", HOST, True)
    other = ServedReservation(B, "rd_3", HOST, True, modules=NAMED)
    served = (GATEWAY, POLICY, worlds.tunnel(name=HOST))

    def refusals(*reserved: ServedReservation) -> tuple[Condition, ...] | None:
        site = worlds.view_of(*served, *reserved).site(HOST, NOW)
        return site.refusals if site else None

    assert refusals(above) == BY_RULES
    assert refusals(above, reservation) == OPEN
    assert refusals(above, replace(reservation, modules=OFF)) == OPEN
    assert refusals(replace(above, modules={}), replace(reservation, modules=NAMED)) == BY_RULES
    assert refusals(other) == OPEN


OWN, WILDCARD = "shop.example.com", "*.example.com"
CERTIFICATE = worlds.certificate("cert_1", OWN)


@pytest.mark.parametrize("is_proved", [True, False])
def test_a_domain_that_is_not_proved_restricts_its_tunnels_too(is_proved: bool) -> None:
    """Its tunnels are served because a wildcard above it is proved. Then the restrictions of both hold."""
    above = ServedReservation(A, "rd_1", WILDCARD, True)
    reservation = ServedReservation(A, "rd_2", OWN, is_proved, modules={**NAMED, **PASSWORDS})

    def decide(*reserved: ServedReservation) -> tuple[tuple[Condition, ...], str]:
        site = worlds.view_of(GATEWAY, POLICY, CERTIFICATE, worlds.tunnel(name=OWN), *reserved).site(OWN, NOW)
        assert site
        return site.refusals, site.reservation

    restricted = replace(above, modules={**NAMED, **PASSWORDS})
    assert decide(above) == (OPEN, "")
    assert decide(above, reservation) == (BY_RULES, "rd_2")
    assert decide(restricted, reservation) == (BY_RULES if is_proved else BY_RULES * 2, "rd_2")
    assert decide(restricted, replace(reservation, modules={})) == ((OPEN, "") if is_proved else (BY_RULES, "rd_1"))
    assert decide(above, replace(reservation, is_readable=False)) == (SHUT, "rd_2")
    assert decide(above, replace(reservation, account=B, is_proved=False)) == (OPEN, "")


def test_a_malformed_reservation_admits_nobody() -> None:
    reservation = ServedReservation(A, "rd_1", HOST, True, is_readable=False)
    assert sites.find_refusals(None, [reservation], {}) == SHUT
    assert sites.find_refusals(None, [ServedAddress(None)], {}) == SHUT
    assert sites.find_refusals(None, [ServedAddress(False), ServedAddress(None)], {}) == SHUT


def test_a_tunnel_with_policies_of_its_own_must_pass_them_too() -> None:
    tunnel = replace(worlds.tunnel(name=HOST), ip_policies=("ipp_1",))
    other = ServedPolicy(A, "ipp_2", Rules(allow=(parse_cidr("198.51.100.0/24"),)))
    by_other = ip_policies.find_refusals(IpRestrictionModule(ip_policy_ids=["ipp_2"]), {"ipp_2": other.rules})
    reservation = ServedReservation(A, "rd_1", HOST, True, modules={"ip_restriction": {"ip_policy_ids": ["ipp_2"]}})

    def refusals(*served: ServedReservation | ServedPolicy) -> tuple[Condition, ...] | None:
        site = worlds.view_of(GATEWAY, tunnel, *served).site(HOST, NOW)
        return site.refusals if site else None

    assert refusals(POLICY) == BY_RULES
    assert refusals(POLICY, other, reservation) == (*BY_RULES, *by_other)
    assert refusals(other, reservation) == (*GONE, *by_other)
    assert refusals(replace(POLICY, account=B)) == GONE
    assert refusals(replace(POLICY, rules=None)) == SHUT
    port = replace(tunnel, name=f"{DOMAIN}:20001", proto="tcp")
    addresses = {port.name: [ServedAddress(False, {"ip_restriction": {"ip_policy_ids": ["ipp_2"]}})]}
    view = AccountView(replace(records_of(GATEWAY, port, POLICY, other), addresses=addresses), worlds.SERVICE)
    assert view.refusals_at("20001") == (*BY_RULES, *by_other)


def test_several_reservations_of_a_port_all_decide() -> None:
    both = [ServedAddress(False, NAMED), ServedAddress(False, NAMED)]
    assert sites.find_refusals(None, both, {"ipp_1": RULES}) == (*BY_RULES, *BY_RULES)


@pytest.mark.parametrize(
    ("modules", "is_asked", "refusals"),
    [
        (PASSWORDS, True, OPEN),
        ({**PASSWORDS, **NAMED}, True, BY_RULES),
        ({"basic_auth": {**PASSWORDS["basic_auth"], "enabled": False}}, False, OPEN),
        ({"basic_auth": {**PASSWORDS["basic_auth"], "passwords": b""}}, False, SHUT),
        ({"basic_auth": {**PASSWORDS["basic_auth"], "usernames": []}}, False, SHUT),
        ({"basic_auth": "malformed"}, False, SHUT),
    ],
)
def test_visitors_of_a_tunnel_need_a_password_of_its_reservation(
    modules: Mapping[str, Any], is_asked: bool, refusals: tuple[Condition, ...]
) -> None:
    reservation = ServedReservation(A, "rd_1", HOST, True, modules=modules)
    site = worlds.view_of(GATEWAY, worlds.tunnel(name=HOST), reservation, POLICY).site(HOST, NOW)
    assert site
    assert (bool(site.basic_auth), site.reservation, site.refusals) == (is_asked, "rd_1" if is_asked else "", refusals)
    assert site.restricts_visitors is bool(is_asked or refusals)
    passed_on = worlds.view_of(GATEWAY, worlds.tunnel(name=HOST, proto="tls"), reservation, POLICY).site(HOST, NOW)
    assert passed_on
    assert passed_on.refusals == (SHUT if is_asked else refusals)  # the edge cannot read passwords there
