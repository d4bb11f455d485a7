"""The plans of names, edges and ports of one account, compared with those of a world of all accounts."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.model.edges.modules import TlsEnd
from chalicelib.model.edges.served import UNREADABLE, ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import edge_plans
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.serving.sites import OPERATOR, OPERATOR_PROXIED, Site
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel
from edge.plan import names
from edge.plan.names import NamePlan, PortPlan
from edge.plan.record_index import Record
from edge.plan.world import World
from edge.serving import standing
from tests.edge.plan.worlds import (
    ANSWER,
    GATEWAY,
    GROUP,
    HOST,
    NOW,
    A,
    authority,
    certificate,
    edge,
    group,
    response,
    route,
    tunnel,
    weighted,
)

ACCOUNTS = ("acct_a", "acct_b", "acct_c")
DOMAIN = "tunnels.localhost"
PORTS = range(20000, 20003)
SERVICE = Service(DOMAIN, PORTS, frozenset({DOMAIN, f"*.{DOMAIN}"}))
BASES = ("one", "two", "team")
BELOW = [f"{name}.{DOMAIN}" for name in ("one", "two", "team", "x.team", "y.team", "*.team", "z.y.team", "*.y.team")]
ELSEWHERE = ["example.com", *(f"{it}.example.com" for it in ("*", "x", "y", "*.x", "y.x", "z.y.x", "*.y"))]
VISITED = sorted({*(it.replace("*", "any") for it in [*BELOW, *ELSEWHERE]), *BELOW, *ELSEWHERE} - {"*"})
CERTIFIED = [*BELOW, *ELSEWHERE]


@st.composite
def worlds(draw: st.DrawFn) -> list[Record]:
    """Draw the records of three accounts. A base name belongs to one account, as the store's unique keys ensure."""
    accounts = st.sampled_from(ACCOUNTS)
    owners = {base: draw(accounts) for base in BASES}
    facts: list[Record] = [GATEWAY] if draw(st.integers(0, 9)) else []
    facts += [draw(_reservation(number, owners)) for number in range(draw(st.integers(0, 6)))]
    facts += [draw(_tunnel(number, owners)) for number in range(draw(st.integers(0, 6)))]
    facts += [draw(_edge(number, owners)) for number in range(draw(st.integers(1, 5)))]
    facts += [draw(_certificate(number)) for number in range(draw(st.integers(1, 5)))]
    labels = st.sampled_from([{"app": "web"}, {"app": "web", "region": "x"}, {"region": "x"}])
    facts += [replace(group(), account=draw(accounts), id=f"{GROUP[:-1]}{it}") for it in range(draw(st.integers(0, 2)))]
    facts += [group(f"{GROUP[:-1]}{it}", account=draw(accounts), **draw(labels)) for it in range(2, 4)]
    facts += [replace(response(), account=draw(accounts))]
    facts += [replace(weighted("bkdwd_1", {f"{GROUP[:-1]}1": 1, f"{GROUP[:-1]}2": 2}), account=draw(accounts))]
    return [*facts, authority("ca_1", account=draw(accounts)), authority("ca_2", account=draw(accounts), pem="")]


def _owner(host: str, owners: dict[str, str], draw: st.DrawFn) -> str:
    base = host.removesuffix(f".{DOMAIN}").rpartition(".")[2]
    return owners[base] if host.endswith(f".{DOMAIN}") else draw(st.sampled_from(ACCOUNTS))


@st.composite
def _reservation(draw: st.DrawFn, number: int, owners: dict[str, str]) -> ServedReservation:
    domain = draw(st.sampled_from([*BELOW, *ELSEWHERE, *ELSEWHERE]))
    is_proved = domain in BELOW or draw(st.integers(0, 3)) > 0
    made = ServedReservation(_owner(domain, owners, draw), f"rd_{number}", domain, is_proved)
    flags = draw(st.booleans()), draw(st.integers(0, 5)) > 0
    chosen, headers = draw(st.sampled_from(["", "", "cert_0", "cert_1"])), draw(st.sampled_from([(), ("x-a",)]))
    return replace(made, proxy_protocol=flags[0], is_readable=flags[1], certificate_id=chosen, keep_headers=headers)


@st.composite
def _tunnel(draw: st.DrawFn, number: int, owners: dict[str, str]) -> ServedTunnel:
    port = f"{DOMAIN}:{draw(st.integers(19999, 20002))}"
    name = draw(st.sampled_from(["", f"one.{DOMAIN}", f"two.{DOMAIN}", "x.example.com", "y.example.com", port]))
    gateway = draw(st.sampled_from(["gw-1", "gw-1", "gw-1", "gw-2"]))
    account = owners["one"] if ":" in name else _owner(name, owners, draw)
    proto: Proto = "tcp" if ":" in name else draw(st.sampled_from(["https", "https", "tls"]))
    labels = draw(st.sampled_from([{}, {"app": "web"}, {"app": "web", "region": "x"}]))
    proxied = draw(st.booleans())
    return ServedTunnel(account, f"tn_{number}", gateway, name, labels=labels, proto=proto, proxy_protocol=proxied)


@st.composite
def _edge(draw: st.DrawFn, number: int, owners: dict[str, str]) -> ServedEdge:
    kind = draw(st.sampled_from(["edghts", "edghts", "edghts", "edgtls", "edgtcp"]))
    account, id = draw(st.sampled_from(ACCOUNTS)), f"{kind}_{number}"
    backends = st.sampled_from([None, f"{GROUP[:-1]}0", f"{GROUP[:-1]}1", f"{GROUP[:-1]}2", ANSWER, "bkdwd_1"])
    mutual = draw(st.sampled_from([*[None] * 6, ["ca_1"], ["ca_1", "ca_3"]]))
    if kind == "edgtcp":
        hosts = [DOMAIN, "x.example.com"] if account == owners["one"] else ["x.example.com", "example.com"]
        ports = st.lists(st.builds("{}:{}".format, st.sampled_from(hosts), st.integers(19999, 20002)), max_size=2)
        return edge(id=id, account=account, hosts=draw(ports), backend=draw(backends), authorities=mutual)
    own = [it for it in [*BELOW, *ELSEWHERE] if it in ELSEWHERE or _owner(it, owners, draw) == account]
    used = draw(st.lists(st.sampled_from(own), min_size=1, max_size=3, unique=True))
    paths = draw(st.sampled_from([["/"], ["/", "/a"], []])) if kind == "edghts" else []
    routes = [route(it, draw(backends), id=f"edghtsrt_{number}{it}") for it in paths]
    place: TlsEnd = draw(st.sampled_from(["edge", "edge", "upstream"])) if routes else "edge"
    version = draw(st.sampled_from([None, None, "1.2", "1.3"]))
    backend = draw(backends) if kind == "edgtls" else None
    made = edge(
        *routes, id=id, account=account, hosts=used, authorities=mutual, version=version, backend=backend, place=place
    )
    return replace(made, error=UNREADABLE) if draw(st.integers(0, 9)) == 9 else made


@st.composite
def _certificate(draw: st.DrawFn, number: int) -> ServedCertificate:
    covered = draw(st.lists(st.sampled_from(CERTIFIED), min_size=1, max_size=2))
    made = certificate(f"cert_{number}", *covered, account=draw(st.sampled_from(ACCOUNTS)))
    return replace(made, not_after=NOW) if draw(st.integers(0, 5)) == 5 else made


def world_of(facts: list[Record], rejected: dict[str, str]) -> World:
    made = World(DOMAIN, PORTS)
    for fact in facts:
        made.apply(fact)
    for account in made.accounts():
        made.set_ready(account, made.hosts_of_account(account))
    for id, error in rejected.items():
        made.reject_certificate(id, error)
    return made


def records_of(account: str, facts: list[Record], rejected: dict[str, str]) -> AccountRecords:
    """Return the records of one account, and all reservations."""
    own = [it for it in facts if not isinstance(it, Gateway | ServedReservation) and it.account == account]
    return AccountRecords(
        account,
        frozenset(),
        tunnels={it.id: it for it in own if isinstance(it, ServedTunnel)},
        gateways={it.id: it for it in facts if isinstance(it, Gateway)},
        edges={it.id: it for it in own if isinstance(it, ServedEdge)},
        backends={it.id: it for it in own if isinstance(it, ServedBackend)},
        authorities={it.id: it for it in own if isinstance(it, ServedAuthority)},
        certificates={it.id: it for it in own if isinstance(it, ServedCertificate)},
        reservations=tuple(it for it in facts if isinstance(it, ServedReservation)),
        rejected=rejected,
    )


def answer_of(name: str, world: World) -> tuple[str, str, Site | Plan] | None:
    """Return the account, the certificate, and the tunnel or edge that answers a name of the world."""
    if not (found := world.edge_at_host(name)):
        if site := world.site(name, NOW):
            return site.tunnel.account, OPERATOR if site.certificate == OPERATOR_PROXIED else site.certificate, site
        if world.is_withheld(name):
            return None
    host = name if found else f"*.{name.partition('.')[2]}"
    found = found or world.edge_at_host(host)
    plan = edge_plans.make_plan(found, world, NOW) if found else None
    planned = next(it for it in plan.hosts if it.name == host) if plan else None
    return (
        (plan.edge.account, planned.certificate, without_closed(plan)) if plan and planned and planned.answers else None
    )


def without_closed(plan: Plan) -> Plan:
    """Return a plan without the names below wildcards that do not answer."""
    below = (it for it in plan.served_elsewhere if f"*.{it.partition('.')[2]}" in plan.certificates)
    return replace(plan, served_elsewhere=tuple(below))


def answer(plan: NamePlan) -> tuple[str, str, Site | Plan] | None:
    served = plan.site or (plan.edge and without_closed(plan.edge))
    return (plan.account, plan.certificate, served) if served else None


@settings(max_examples=300)
@given(worlds(), st.sampled_from([{}, {"cert_0": "no"}]))
def test_an_account_s_names_are_planned_as_in_a_world_of_all(facts: list[Record], rejected: dict[str, str]) -> None:
    world = world_of(facts, {id: error for id, error in rejected.items() if id in {it.id for it in facts}})
    for account in ACCOUNTS:
        planned = names.plan_names(VISITED, records_of(account, facts, rejected), NOW, SERVICE)
        expected = {name: answer_of(name, world) for name in VISITED}
        owned = {name: it if it and it[0] == account else None for name, it in expected.items()}
        assert {name: answer(it) for name, it in planned.items()} == owned


@settings(max_examples=300)
@given(worlds(), st.sampled_from([{}, {"cert_0": "no"}]))
def test_an_account_s_edges_and_ports_are_planned_as_in_a_world_of_all(
    facts: list[Record], rejected: dict[str, str]
) -> None:
    world = world_of(facts, {id: error for id, error in rejected.items() if id in {it.id for it in facts}})
    for account in ACCOUNTS:
        records = records_of(account, facts, rejected)
        view = AccountView(records, SERVICE)
        for id in records.edges:
            plan, expected = (
                names.plan_edge(id, records, NOW, SERVICE),
                edge_plans.make_plan(world.edges[id], world, NOW),
            )
            assert plan
            assert without_closed(plan) == without_closed(expected)
            assert standing.plan_status(plan, view) == standing.plan_status(expected, world)
        for port in map(str, (19999, *PORTS)):
            at, served = world.edge_at_port(port), names.plan_port(port, records, NOW, SERVICE)
            through, to = world.tunnel_at(port), edge_plans.make_plan(at, world, NOW) if at else None
            is_open = to and any(it.endswith(f":{port}") for it in to.certificates)
            own_edge = to if to and is_open and to.edge.account == account else None
            own_tunnel = through if through and through.account == account else None
            assert served == PortPlan(port, account, own_tunnel, own_edge)


def planned(*facts: Record, name: str = HOST, rejected: dict[str, str] | None = None) -> NamePlan:
    return names.plan_name(name, records_of(A, list(facts), rejected or {}), NOW, SERVICE)


TUNNEL = tunnel(name=HOST)
OTHER, WILD, DEEP = f"b.{DOMAIN}", f"*.t.{DOMAIN}", f"x.t.{DOMAIN}"
CERTIFICATE = certificate("cert_1", HOST, OTHER)


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
        ((edge(route(), place="upstream"), group()), True),
        ((edge(id="edgtls_1", backend=GROUP), group()), True),
    ],
)
def test_a_name_is_special_if_the_shared_handshake_cannot_serve_it(facts: tuple[Record, ...], is_special: bool) -> None:
    plan = planned(*facts)
    assert (plan.is_served, plan.is_special) == (True, is_special)


@pytest.mark.parametrize(
    ("facts", "name", "refusal"),
    [
        ((), HOST, "The account has no edge and no online tunnel at the name."),
        ((TUNNEL,), HOST, "The account has no edge and no online tunnel at the name."),
        ((GATEWAY, tunnel(name="x.example.com")), "x.example.com", "The account has not proved the domain."),
        (
            (GATEWAY, tunnel(name="x.example.com"), ServedReservation(A, "rd_1", "x.example.com", True)),
            "x.example.com",
            "No TLS certificate of the account covers the tunnel's name.",
        ),
        ((GATEWAY, TUNNEL, replace(edge(), error=UNREADABLE)), HOST, UNREADABLE),
    ],
)
def test_a_name_that_nothing_serves_says_why(facts: tuple[Record, ...], name: str, refusal: str) -> None:
    assert planned(*facts, name=name) == NamePlan(name, A, refusal=refusal)


def test_an_account_that_is_switched_off_serves_no_name() -> None:
    records = replace(records_of(A, [GATEWAY, TUNNEL, edge(hosts=[OTHER])], {}), is_active=False)
    refused = {it: NamePlan(it, A, refusal="The account is switched off.") for it in (HOST, OTHER)}
    assert names.plan_names(refused, records, NOW, SERVICE) == refused
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
    assert planned(*facts, name=name).hosts == hosts


def test_a_rejected_certificate_gives_way_to_the_next_one() -> None:
    facts: list[Record] = [GATEWAY, TUNNEL, CERTIFICATE, certificate("cert_2", f"*.{DOMAIN}")]
    found = [planned(*facts, rejected=it).certificate for it in ({}, {"cert_1": "no"}, {"cert_1": "", "cert_2": ""})]
    assert found == ["cert_1", "cert_2", OPERATOR]
