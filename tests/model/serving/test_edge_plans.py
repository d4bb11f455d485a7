"""How an edge is served, as rules: which hosts are live, and the targets of its routes."""

from dataclasses import replace
from typing import Literal

import pytest

from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy, parse_cidr
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.modules.tls_termination import TlsEnd
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.policy_expressions import Constant
from chalicelib.model.edges.served import UNREADABLE, ServedBackend, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import edge_plans, pages
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_plans import PlannedHost
from tests.edge.edge_modules import enabled, extended
from tests.edge.plan.worlds import (
    ANSWER,
    DOMAIN,
    EDGE,
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
    plan_of,
    records_of,
    response,
    route,
    tunnel,
    view_of,
    weighted,
)

OWN = "shop.example.com"
MINE = ServedReservation(A, "rd_1", OWN, True)
DEEP = f"x.t.{DOMAIN}"
NO_CERTIFICATE = "No TLS certificate of the account covers the host: upload one for"
UNCOVERED = "No TLS certificate covers the host: upload one for"
SHOWN = "Until then, visitors get the operator's certificate."


@pytest.mark.parametrize(
    ("facts", "host", "expected"),
    [
        ((edge(),), HOST, PlannedHost(HOST, "live", "", "operator")),
        ((edge(), certificate("cert_1", HOST)), HOST, PlannedHost(HOST, "live", "", "cert_1")),
        ((edge(), certificate("cert_1", HOST, account=B)), HOST, PlannedHost(HOST, "live", "", "operator")),
        (
            (edge(hosts=["*.t.tunnels.localhost"]), certificate("cert_1", "*.t.tunnels.localhost")),
            "*.t.tunnels.localhost",
            PlannedHost("*.t.tunnels.localhost", "live", "", "cert_1"),
        ),
        (
            (edge(hosts=[OWN]),),
            OWN,
            PlannedHost(OWN, "unproved", "The account has not proved the domain: verify its reservation."),
        ),
        (
            (edge(hosts=[OWN]), replace(MINE, account=B)),
            OWN,
            PlannedHost(OWN, "unproved", "The account has not proved the domain: verify its reservation."),
        ),
        (
            (edge(hosts=[OWN]), MINE),
            OWN,
            PlannedHost(OWN, "refused", f"{NO_CERTIFICATE} {OWN} or *.example.com."),
        ),
        ((edge(hosts=[OWN]), MINE, certificate("cert_1", OWN)), OWN, PlannedHost(OWN, "live", "", "cert_1")),
        (
            (edge(hosts=["example.com"]), replace(MINE, domain="example.com")),
            "example.com",
            PlannedHost("example.com", "refused", f"{NO_CERTIFICATE} example.com."),
        ),
        (
            (edge(hosts=[DEEP]),),
            DEEP,
            PlannedHost(DEEP, "refused", f"{UNCOVERED} {DEEP} or *.t.{DOMAIN}. {SHOWN}", "operator"),
        ),
        (
            (edge(hosts=[f"*.t.{DOMAIN}"]), certificate("cert_1", DEEP)),
            f"*.t.{DOMAIN}",
            PlannedHost(f"*.t.{DOMAIN}", "refused", f"{UNCOVERED} *.t.{DOMAIN}. {SHOWN}", "operator"),
        ),
        ((edge(hosts=[DEEP]), certificate("cert_1", f"*.t.{DOMAIN}")), DEEP, PlannedHost(DEEP, "live", "", "cert_1")),
        ((edge(hosts=[DOMAIN]),), DOMAIN, PlannedHost(DOMAIN, "live", "", "operator")),
        ((edge(authorities=["ca_1"]), authority()), HOST, PlannedHost(HOST, "live", "", "operator")),
        (
            (edge(authorities=["ca_1", "ca_2"]), authority()),
            HOST,
            PlannedHost(HOST, "refused", "A certificate authority that the module mutual_tls names does not exist."),
        ),
        (
            (edge(authorities=["ca_1"]), authority(account=B)),
            HOST,
            PlannedHost(HOST, "refused", "A certificate authority that the module mutual_tls names does not exist."),
        ),
        (
            (edge(authorities=[]),),
            HOST,
            PlannedHost(HOST, "refused", "A certificate authority that the module mutual_tls names does not exist."),
        ),
        ((edge(unenforced=("oidc",)),), HOST, PlannedHost(HOST, "live", "", "operator")),
        (
            (edge(authorities=["ca_1", "ca_2"]), authority(pem=""), authority("ca_2")),
            HOST,
            PlannedHost(
                HOST, "refused", "The stored certificate authority that the module mutual_tls names is malformed."
            ),
        ),
        ((replace(edge(), error=UNREADABLE),), HOST, PlannedHost(HOST, "refused", UNREADABLE)),
        (
            (replace(edge(hosts=[OWN]), error=UNREADABLE),),
            OWN,
            PlannedHost(OWN, "unproved", "The account has not proved the domain: verify its reservation."),
        ),
    ],
)
def test_a_host_is_live_or_the_error_says_why_not(facts: tuple[Record, ...], host: str, expected: PlannedHost) -> None:
    assert [host_state for host_state in plan_of(EDGE, *facts).hosts if host_state.name == host] == [expected]


@pytest.mark.parametrize(
    ("covered", "live"),
    [
        ({f"*.{DOMAIN}"}, [HOST]),
        ({f"*.{DOMAIN}", f"*.t.{DOMAIN}"}, [HOST, DEEP]),
        ({DOMAIN}, []),
    ],
)
def test_a_host_is_live_if_the_operators_certificate_covers_it(covered: set[str], live: list[str]) -> None:
    plan = plan_of(EDGE, edge(hosts=[HOST, DEEP]), service=Service(DOMAIN, operator_names=frozenset(covered)))
    assert [host.name for host in plan.hosts if host.state == "live"] == live


@pytest.mark.parametrize(
    ("served_route", "weights", "page", "error"),
    [
        (route(), ((GROUP, 1_000_000_000),), "", ""),
        (route(backend=None), (), pages.NO_BACKEND, ""),
        (route(backend="bkdtg_9"), (), pages.NO_BACKEND, "The backend bkdtg_9 does not exist."),
        (route(backend="bkdtg_b"), (), pages.NO_BACKEND, "The backend bkdtg_b does not exist."),
        (route(backend="bkdwd_1"), ((ANSWER, 250_000_000), (GROUP, 750_000_000)), "", ""),
        (route(backend="bkdwd_2"), ((GROUP, 1_000_000_000),), "", "The backend bkdtg_9 does not exist."),
        (
            route(unenforced=("oauth",)),
            (),
            pages.NOT_ENFORCED,
            "The edge cannot enforce these enabled modules: oauth.",
        ),
        (route("/a?b"), (), pages.NO_BACKEND, "No request can match the path, since it contains ? or #."),
        (route("/a#b"), (), pages.NO_BACKEND, "No request can match the path, since it contains ? or #."),
        (route(backend="bkdhr_9"), (), pages.NO_BACKEND, "The record of bkdhr_9 is malformed."),
        (route(backend="bkdwd_3"), (), pages.NO_BACKEND, "The record of bkdhr_9 is malformed."),
    ],
)
def test_a_route_has_backends_or_a_page(
    served_route: ServedRoute, weights: tuple[tuple[str, int], ...], page: str, error: str
) -> None:
    backends = [
        group(),
        group("bkdtg_b", account=B),
        response(),
        weighted("bkdwd_1", {GROUP: 3, ANSWER: 1}),
        weighted("bkdwd_2", {GROUP: 1, "bkdtg_9": 1}),
        weighted("bkdwd_3", {GROUP: 1, "bkdhr_9": 1}),
        ServedBackend(A, "bkdhr_9", None),
    ]
    (target,) = plan_of(EDGE, *backends, edge(served_route)).targets
    assert (target.weights, target.page, target.error) == (weights, page, error)


def test_an_edge_with_a_module_that_is_not_enforced_answers_all_with_a_page() -> None:
    plan = plan_of(EDGE, group(), edge(route(), route("/a", id="r2"), unenforced=("oidc", "saml")))
    message = "The edge cannot enforce these enabled modules: oidc, saml."
    assert plan.page == pages.NOT_ENFORCED
    assert {(target.weights, target.page, target.error) for target in plan.targets} == {
        ((), pages.NOT_ENFORCED, message)
    }


def test_exact_paths_come_before_prefixes_and_of_these_the_longest() -> None:
    routes = [
        route("/", id="r1"),
        route("/a", id="r2", kind="exact_path"),
        route("/a/b", id="r3"),
        route("/a", id="r4"),
        route("/a/b/c", id="r5", kind="exact_path"),
    ]
    assert [target.route.id for target in plan_of(EDGE, edge(*routes)).targets] == ["r5", "r2", "r3", "r4", "r1"]


TWO = (GROUP, "bkdtg_2")
GREEN_GROUP = group("bkdtg_2", app="green")
BLUE, GREEN = tunnel("tn_1"), tunnel("tn_2", app="green")


@pytest.mark.parametrize(
    ("children", "facts", "online"),
    [
        (TWO, [GATEWAY, GREEN_GROUP, BLUE, GREEN], TWO),
        (TWO, [GATEWAY, GREEN_GROUP, GREEN], ("bkdtg_2",)),
        (TWO, [GATEWAY, GREEN_GROUP, BLUE], (GROUP,)),
        (TWO, [GATEWAY, GREEN_GROUP], TWO),
        (TWO, [GREEN_GROUP, BLUE, GREEN], TWO),
        (TWO, [GATEWAY, group("bkdtg_2"), BLUE], TWO),
        (TWO, [GATEWAY, BLUE, GREEN], (GROUP,)),
        ((GROUP, ANSWER), [GATEWAY], (ANSWER,)),
        ((GROUP, ANSWER), [GATEWAY, BLUE], (ANSWER, GROUP)),
    ],
)
def test_a_route_uses_the_backends_that_are_online(
    children: tuple[str, ...], facts: list[Record], online: tuple[str, ...]
) -> None:
    shared = weighted("bkdwd_1", dict.fromkeys(children, 1))
    (target,) = plan_of(EDGE, *facts, group(), response(), shared, edge(route(backend="bkdwd_1"))).targets
    assert tuple(id for id, _ in target.online) == tuple(sorted(online))


WILD = edge(route(), hosts=["*.example.com"])
PROVED = ServedReservation(A, "rd_0", "*.example.com", True)


@pytest.mark.parametrize("tls_end", ["edge", "upstream"])
@pytest.mark.parametrize(
    ("other", "elsewhere"),
    [
        ((), ()),
        ((replace(MINE, account=A),), ()),
        ((replace(MINE, account=B),), (OWN,)),
        ((replace(MINE, account=B, is_proved=False),), ()),
        ((replace(MINE, account=B, domain="*.shop.example.com"),), ()),
        ((replace(MINE, account=B, domain="a.shop.example.com"),), ()),
        ((replace(MINE, account=B, domain="example.com"),), ()),
        ((edge(id="edghts_2", hosts=[OWN]),), (OWN,)),
        ((edge(id="edgtls_2", hosts=[OWN]),), (OWN,)),
        ((replace(edge(id="edghts_2", hosts=[OWN]), error=UNREADABLE),), (OWN,)),
        ((edge(id="edghts_2", hosts=["a.shop.example.com"]),), ()),
        ((edge(id="edghts_2", account=B, hosts=[OWN]),), ()),
        ((GATEWAY, tunnel(name=OWN)), (OWN,)),
    ],
)
def test_a_wildcard_leaves_the_names_below_it_that_others_have(
    other: tuple[Record, ...], elsewhere: tuple[str, ...], tls_end: TlsEnd
) -> None:
    plan = plan_of(EDGE, replace(WILD, terminate_at=tls_end), PROVED, *other)
    assert plan.served_elsewhere == (elsewhere if tls_end == "edge" else ())


@pytest.mark.parametrize("id", ["edghts_1", "edgtls_1"])
def test_a_malformed_edge_keeps_its_names(id: str) -> None:
    lost, below = replace(edge(id=id), error=UNREADABLE), edge(route(), id="edghts_2", hosts=[f"*.{DOMAIN}"])
    facts: list[Record] = [GATEWAY, tunnel("tn_2", name=HOST), lost, below]
    view = view_of(*facts)
    assert (view.edge_at_host(HOST), view.site(HOST, NOW)) == (lost, None)
    assert plan_of("edghts_2", *facts).served_elsewhere == (HOST,)
    assert plan_of(id, *facts).hosts == (PlannedHost(HOST, "refused", UNREADABLE),)


def test_a_host_with_a_malformed_reservation_is_closed_and_the_others_are_not() -> None:
    unreadable = ServedReservation(A, "rd_2", HOST, True, is_readable=False)
    other = f"other.{DOMAIN}"
    plan = plan_of(EDGE, GATEWAY, group(), unreadable, edge(route(), hosts=[HOST, other]), certificate("cert_1", HOST))
    assert [(host.name, host.state, host.error) for host in plan.hosts] == [
        (HOST, "refused", "The stored reservation of the host is malformed: contact the operator."),
        (other, "live", ""),
    ]


def test_a_host_says_why_envoy_rejected_its_certificate() -> None:
    records = records_of(edge(), certificate("cert_1", HOST), rejected={"cert_1": "no"})
    view = AccountView(records, SERVICE)
    error = "Envoy rejected a certificate: no"
    assert edge_plans.make_plan(view.edges[EDGE], view, NOW).hosts == (PlannedHost(HOST, "live", error, "operator"),)


def test_an_edge_that_restricts_visitors_is_closed_if_envoy_rejects_its_routes() -> None:
    restricting = edge(route(agents=UserAgentModule(deny=["bot"])), route("/x", id="edghtsrt_2"))
    closed = edge_plans.close_refused(plan_of(EDGE, group(), restricting), "regex '*' is too large")
    assert closed.page == pages.NOT_ENFORCED
    assert [(target.route.id, target.weights, target.page, target.error) for target in closed.targets] == [
        ("edghtsrt_2", (), pages.NOT_ENFORCED, "regex '*' is too large"),
        ("edghtsrt_1", (), pages.NOT_ENFORCED, "regex '*' is too large"),
    ]
    plain = plan_of(EDGE, group(), edge(route()))
    assert edge_plans.close_refused(plain, "no") == plain


OFFICE = ServedPolicy(A, "ipp_1", Rules(allow=(parse_cidr("192.0.2.0/24"),)))
RESTRICTED = IpRestrictionModule(ip_policy_ids=["ipp_1"])
GONE = "The IP policy ipp_1 does not exist: no visitor is admitted."


def test_visitors_must_pass_the_policies_of_the_edge_and_of_the_route() -> None:
    plain, own_modules = (
        edge(route(), route("/x", id="edghtsrt_2")),
        extended(route().modules, ip_restriction=RESTRICTED),
    )
    routes = (*plain.routes, ServedRoute("edghtsrt_3", "path_prefix", "/y", own_modules))
    restricted = replace(plain, routes=routes, modules=enabled(ip_restriction=RESTRICTED))
    plan = plan_of(EDGE, GATEWAY, group(), tunnel(), restricted, OFFICE)
    assert len(plan.refusals) == 1
    assert {
        target.route.match: (len(target.refusals), target.restricts_visitors, target.error) for target in plan.targets
    } == {
        "/x": (1, False, ""),
        "/y": (2, True, ""),
        "/": (1, False, ""),
    }
    plan_without_policy = plan_of(EDGE, GATEWAY, group(), tunnel(), restricted, replace(OFFICE, account=B))
    assert [(host.state, host.error) for host in plan_without_policy.hosts] == [("live", GONE)]
    assert [target.error for target in plan_without_policy.targets if target.route.match == "/y"] == [GONE]
    unreadable = plan_of(EDGE, GATEWAY, group(), tunnel(), restricted, replace(OFFICE, rules=None))
    assert unreadable.refusals == (Constant(True),)


@pytest.mark.parametrize("terminate_at", ["edge", "upstream"])
def test_an_edge_with_too_many_networks_refuses_all(terminate_at: Literal["edge", "upstream"]) -> None:
    def networks(number: int) -> ServedPolicy:
        rules = Rules(allow=tuple(parse_cidr(f"10.{number}.{index >> 8}.{index & 255}") for index in range(500)))
        return ServedPolicy(A, f"ipp_{number}", rules)

    def plan(count: int) -> edge_plans.Plan:
        modules = (
            extended(route().modules, ip_restriction=IpRestrictionModule(ip_policy_ids=[f"ipp_{number}"]))
            for number in range(count)
        )
        routes = (
            ServedRoute(f"edghtsrt_{number}", "path_prefix", f"/{number}", route_modules)
            for number, route_modules in enumerate(modules)
        )
        served = replace(edge(*routes), terminate_at=terminate_at)
        return plan_of(EDGE, GATEWAY, group(), tunnel(), served, *map(networks, range(count)))

    for count, is_open in ((4, True), (5, False)):
        edge_plan = plan(count)
        refusals = [target.refusals for target in edge_plan.targets] or [edge_plan.refusals]
        assert [refusal != ip_policies.REFUSE_ALL for refusal in refusals] == [is_open] * len(refusals)
        errors = [target.error for target in edge_plan.targets]
        assert [ip_policies.TOO_MANY in error for error in errors] == [not is_open] * len(errors)


def test_an_edge_with_policies_is_closed_if_envoy_rejects_its_routes() -> None:
    for routes in ((), (route(),)):
        restricted = replace(edge(*routes), modules=enabled(ip_restriction=RESTRICTED))
        closed = edge_plans.close_refused(plan_of(EDGE, group(), restricted, OFFICE), "no")
        assert (closed.page, closed.refusals) == (pages.NOT_ENFORCED, ())
        assert [target.page for target in closed.targets] == [pages.NOT_ENFORCED for _ in routes]
