"""The plans of names and ports of one account, as rules."""

from dataclasses import replace

import pytest

from chalicelib.model.edges.served import UNREADABLE
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.sites import OPERATOR
from edge.plan import names
from edge.plan.names import NamePlan, PortPlan
from tests.edge.plan.worlds import (
    DOMAIN,
    GATEWAY,
    GROUP,
    HOST,
    NOW,
    SERVICE,
    A,
    B,
    Record,
    authority,
    certificate,
    edge,
    group,
    records_of,
    route,
    tunnel,
)


def make_plan(*facts: Record, name: str = HOST, rejected_certificates: dict[str, str] | None = None) -> NamePlan:
    return names.plan_name(name, records_of(*facts, rejected=rejected_certificates), NOW, SERVICE)


TUNNEL = tunnel(name=HOST)
OTHER, WILD, DEEP = f"b.{DOMAIN}", f"*.t.{DOMAIN}", f"x.t.{DOMAIN}"
CERTIFICATE = certificate("cert_1", HOST, OTHER)


PROVED = ServedReservation(A, "rd_1", "*.example.com", True)
WILD_CERTIFICATE = certificate("cert_w", "*.example.com")
SHOP = "shop.example.com"
ANY = edge(id="edghts_w", hosts=["*.example.com"])
OTHER_RESERVATION = ServedReservation(B, "rd_2", SHOP, True)
PORT = f"{DOMAIN}:20001"
TCP, TCP_TUNNEL = edge(id="edgtcp_1", hosts=[PORT], backend=GROUP), tunnel("tn_p", name=PORT, proto="tcp")


@pytest.mark.parametrize(
    ("facts", "name", "answers", "certificate_id"),
    [
        ((), HOST, "", ""),
        ((TUNNEL,), HOST, "tn_1", OPERATOR),
        ((TUNNEL, CERTIFICATE), HOST, "tn_1", "cert_1"),
        ((replace(TUNNEL, proxy_protocol=True),), HOST, "tn_1", OPERATOR),
        ((replace(TUNNEL, account=B),), HOST, "", ""),
        ((replace(TUNNEL, proto="tls"), CERTIFICATE), HOST, "tn_1", ""),
        ((edge(),), HOST, "edghts_1", OPERATOR),
        ((edge(), CERTIFICATE), HOST, "edghts_1", "cert_1"),
        ((edge(account=B),), HOST, "", ""),
        ((edge(), TUNNEL), HOST, "edghts_1", OPERATOR),  # an edge precedes a tunnel
        ((replace(edge(), error=UNREADABLE), TUNNEL), HOST, "", ""),  # also if it is closed
        ((edge(hosts=[f"*.{DOMAIN}"]), TUNNEL), HOST, "tn_1", OPERATOR),  # a tunnel precedes a wildcard
        ((edge(hosts=[WILD]),), DEEP, "edghts_1", OPERATOR),
        ((edge(hosts=[WILD]),), WILD, "edghts_1", OPERATOR),
        ((edge(hosts=[WILD]),), f"y.{DEEP}", "", ""),  # a wildcard matches one label
        ((edge(hosts=[WILD]),), f"t.{DOMAIN}", "", ""),
        ((edge(hosts=[WILD]), edge(id="edghts_2", hosts=[DEEP])), DEEP, "edghts_2", OPERATOR),
        ((edge(hosts=[WILD]), replace(edge(id="edghts_2", hosts=[DEEP]), error=UNREADABLE)), DEEP, "", ""),
        ((ANY, WILD_CERTIFICATE), SHOP, "", ""),  # not proved
        ((ANY, PROVED), SHOP, "", ""),  # no certificate
        ((ANY, PROVED, WILD_CERTIFICATE), SHOP, "edghts_w", "cert_w"),
        ((ANY, PROVED, WILD_CERTIFICATE, OTHER_RESERVATION), SHOP, "", ""),  # another account has proved it
        ((ANY, PROVED, WILD_CERTIFICATE, OTHER_RESERVATION), "b.example.com", "edghts_w", "cert_w"),
        ((ANY, PROVED, WILD_CERTIFICATE, replace(OTHER_RESERVATION, is_proved=False)), SHOP, "edghts_w", "cert_w"),
        ((tunnel(name=SHOP), PROVED, WILD_CERTIFICATE, OTHER_RESERVATION), SHOP, "", ""),
        ((ANY, tunnel(name=SHOP), PROVED, WILD_CERTIFICATE), SHOP, "tn_1", "cert_w"),
    ],
)
def test_a_name_is_answered_by_the_first_that_may(
    facts: tuple[Record, ...], name: str, answers: str, certificate_id: str
) -> None:
    plan = make_plan(GATEWAY, *facts, name=name)
    id = plan.site.tunnel.id if plan.site else plan.edge.edge.id if plan.edge else ""
    assert (id, plan.certificate, plan.is_served) == (answers, certificate_id, bool(answers))


def test_a_withheld_name_is_served_for_the_account_that_has_proved_it() -> None:
    own_tunnel = replace(tunnel("tn_2", account=B, name=SHOP), labels={})
    facts: list[Record] = [
        GATEWAY,
        ANY,
        PROVED,
        WILD_CERTIFICATE,
        OTHER_RESERVATION,
        own_tunnel,
        certificate("cert_b", SHOP, account=B),
    ]
    plan = names.plan_name(SHOP, records_of(*facts, account=B), NOW, SERVICE)
    assert (plan.account, plan.certificate, plan.site and plan.site.tunnel) == (B, "cert_b", own_tunnel)


@pytest.mark.parametrize(
    ("facts", "port", "answers"),
    [
        ((), "20001", ""),
        ((TCP_TUNNEL,), "20001", "tn_p"),
        ((TCP_TUNNEL,), "20002", ""),
        ((tunnel("tn_p", name=f"{DOMAIN}:19999", proto="tcp"),), "19999", ""),  # outside of TCP_PORTS
        ((TCP_TUNNEL, replace(TCP_TUNNEL, id="tn_q")), "20001", "tn_q"),  # the newest
        ((replace(TCP_TUNNEL, account=B),), "20001", ""),
        ((TCP, group(), tunnel("tn_g")), "20001", "edgtcp_1"),
        ((TCP, group(), TCP_TUNNEL), "20001", "edgtcp_1"),
        ((replace(TCP, error=UNREADABLE), TCP_TUNNEL), "20001", ""),  # a closed edge keeps its port
        ((TCP, TCP_TUNNEL), "20001", ""),  # its backend does not exist
        ((edge(id="edgtcp_0", hosts=["x.example.com:20001"], backend=GROUP), group(), TCP_TUNNEL), "20001", "tn_p"),
        ((TCP, replace(TCP, id="edgtcp_0"), group()), "20001", "edgtcp_0"),  # the oldest
    ],
)
def test_a_port_is_answered_by_an_edge_before_a_tunnel(facts: tuple[Record, ...], port: str, answers: str) -> None:
    plan = names.plan_port(port, records_of(GATEWAY, *facts), NOW, SERVICE)
    assert (plan.tunnel.id if plan.tunnel else plan.edge.edge.id if plan.edge else "") == answers


@pytest.mark.parametrize(
    ("facts", "is_special"),
    [
        ((GATEWAY, TUNNEL), False),
        ((GATEWAY, replace(TUNNEL, proxy_protocol=True)), False),
        ((GATEWAY, replace(TUNNEL, proto="tls")), True),
        ((edge(route()),), False),
        ((edge(route(), version="1.2"),), False),
        ((edge(route(), version="1.0"),), True),
        ((edge(route(), version="1.3"),), True),
        ((edge(route(), authorities=["ca_1"]), authority()), True),
        ((edge(route(), terminate_at="upstream"), group()), True),
        ((edge(id="edgtls_1", backend=GROUP), group()), True),
    ],
)
def test_a_name_is_special_if_the_shared_handshake_cannot_serve_it(facts: tuple[Record, ...], is_special: bool) -> None:
    plan = make_plan(*facts)
    assert (plan.is_served, plan.is_special) == (True, is_special)


@pytest.mark.parametrize(
    ("facts", "name", "refusal"),
    [
        ((), HOST, "The account has no edge and no online tunnel with this name."),
        ((TUNNEL,), HOST, "The account has no edge and no online tunnel with this name."),
        (
            (GATEWAY, tunnel(name="x.example.com")),
            "x.example.com",
            "The account has not proved that it owns the domain.",
        ),
        (
            (GATEWAY, tunnel(name="x.example.com"), ServedReservation(A, "rd_1", "x.example.com", True)),
            "x.example.com",
            "No TLS certificate of the account covers the tunnel's name.",
        ),
        ((GATEWAY, TUNNEL, replace(edge(), error=UNREADABLE)), HOST, UNREADABLE),
    ],
)
def test_a_name_that_nothing_serves_says_why(facts: tuple[Record, ...], name: str, refusal: str) -> None:
    assert make_plan(*facts, name=name) == NamePlan(name, A, refusal=refusal, is_closed=refusal == UNREADABLE)


def test_an_account_that_is_switched_off_serves_no_name() -> None:
    records = replace(records_of(GATEWAY, TUNNEL, edge(hosts=[OTHER])), is_active=False)
    plans = {host: NamePlan(host, A, refusal="The operator has switched off the account.") for host in (HOST, OTHER)}
    assert names.plan_names(plans, records, NOW, SERVICE) == plans
    assert (names.plan_edge("edghts_1", records, NOW, SERVICE), names.plan_port("20000", records, NOW, SERVICE)) == (
        None,
        PortPlan("20000", A),
    )


@pytest.mark.parametrize(
    ("facts", "name", "hosts"),
    [
        ((edge(hosts=[HOST, OTHER]),), HOST, (HOST, OTHER)),
        ((edge(hosts=[HOST, OTHER]), certificate("cert_1", HOST)), HOST, (HOST,)),
        ((edge(hosts=[HOST, OTHER]), CERTIFICATE), OTHER, (OTHER, HOST)),
        ((edge(hosts=[HOST, WILD]),), HOST, (HOST,)),
        ((edge(hosts=[HOST, WILD]),), DEEP, (DEEP, HOST)),
        ((edge(hosts=[HOST, "x.example.com"]),), HOST, (HOST,)),
        ((GATEWAY, TUNNEL), HOST, (HOST,)),
    ],
)
def test_a_connection_may_use_the_hosts_of_its_edge_with_the_same_certificate(
    facts: tuple[Record, ...], name: str, hosts: tuple[str, ...]
) -> None:
    assert make_plan(*facts, name=name).hosts == hosts


def test_a_rejected_certificate_gives_way_to_the_next_one() -> None:
    facts: list[Record] = [GATEWAY, TUNNEL, CERTIFICATE, certificate("cert_2", f"*.{DOMAIN}")]
    certificate_ids = [
        make_plan(*facts, rejected_certificates=rejected_certificates).certificate
        for rejected_certificates in ({}, {"cert_1": "no"}, {"cert_1": "", "cert_2": ""})
    ]
    assert certificate_ids == ["cert_1", "cert_2", OPERATOR]
