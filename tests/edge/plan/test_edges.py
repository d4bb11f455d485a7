"""What an edge serves, as rules: where it is live, where its routes lead, and what a change touches."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chalicelib.model.edges.modules import TlsEnd, UserAgentModule
from chalicelib.model.edges.served import UNREADABLE, ServedBackend, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from edge.envoy.resources import Changes, Key, split_stages
from edge.plan import edges, pages
from edge.plan.edges import PlannedHost
from edge.plan.record_index import Removed, Update
from edge.serving.standing import PlannedHostport, PlannedRoute
from tests.edge.plan.served import apply, serving, told
from tests.edge.plan.values import ANSWER, EDGE, GATEWAY, GROUP, HOST, NOW, A, B
from tests.edge.plan.worlds import authority, certificate, edge, group, response, route, tunnel, weighted

OWN = "shop.example.com"
MINE = ServedReservation(A, "rd_1", OWN, True)
DOMAIN = "tunnels.localhost"
DEEP = f"x.t.{DOMAIN}"
NO_CERTIFICATE = "No TLS certificate of the account covers the host: upload one for"
UNCOVERED = "No TLS certificate covers the host: upload one for"
SHOWN = "Until then the operator's is shown."
WHOLE = (GATEWAY, tunnel(), group(), response(), edge(route()))


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
            PlannedHost(HOST, "refused", "A certificate authority of mutual_tls does not exist."),
        ),
        (
            (edge(authorities=["ca_1"]), authority(account=B)),
            HOST,
            PlannedHost(HOST, "refused", "A certificate authority of mutual_tls does not exist."),
        ),
        (
            (edge(authorities=[]),),
            HOST,
            PlannedHost(HOST, "refused", "A certificate authority of mutual_tls does not exist."),
        ),
        ((edge(unenforced=("oidc",)),), HOST, PlannedHost(HOST, "live", "", "operator")),
        (
            (edge(authorities=["ca_1", "ca_2"]), authority(pem=""), authority("ca_2")),
            HOST,
            PlannedHost(HOST, "refused", "The record of a certificate authority of mutual_tls is malformed."),
        ),
        ((replace(edge(), error=UNREADABLE),), HOST, PlannedHost(HOST, "refused", UNREADABLE)),
        (
            (replace(edge(hosts=[OWN]), error=UNREADABLE),),
            OWN,
            PlannedHost(OWN, "unproved", "The account has not proved the domain: verify its reservation."),
        ),
    ],
)
def test_a_host_is_live_or_says_why_not(facts: tuple[Update, ...], host: str, expected: PlannedHost) -> None:
    made = serving(*facts)
    assert edges.plan_host(made.world.edges[EDGE], host, made.world, NOW) == expected


def test_a_host_is_live_if_the_operators_certificate_covers_it() -> None:
    made = serving(edge(hosts=[HOST, DEEP]))

    def certificates() -> list[str]:
        standing = made.planned_status(EDGE)
        assert standing
        return [it.hostport for it in standing.hostports if it.state == "live"]

    assert certificates() == [f"{HOST}:443"]
    made.rename_operator(frozenset({f"*.{DOMAIN}", f"*.t.{DOMAIN}"}), NOW)
    assert made.take_changed_edges() == {EDGE}
    assert certificates() == [f"{HOST}:443", f"{DEEP}:443"]
    made.rename_operator(frozenset({DOMAIN}), NOW)
    assert certificates() == []
    made.take_changed_edges()
    assert (made.rename_operator(frozenset({DOMAIN}), NOW), made.take_changed_edges()) == ({}, frozenset())


def test_a_host_waits_for_the_certificates_of_its_account() -> None:
    made = serving()
    made.update([edge()], NOW)
    assert edges.plan_host(edge(), HOST, made.world, NOW).state == "waiting"


@pytest.mark.parametrize(
    ("made", "weights", "page", "error"),
    [
        (route(), ((GROUP, 1_000_000_000),), "", ""),
        (route(backend=None), (), pages.NO_BACKEND, ""),
        (route(backend="bkdtg_9"), (), pages.NO_BACKEND, "bkdtg_9 does not exist."),
        (route(backend="bkdtg_b"), (), pages.NO_BACKEND, "bkdtg_b does not exist."),
        (route(backend="bkdwd_1"), ((ANSWER, 250_000_000), (GROUP, 750_000_000)), "", ""),
        (route(backend="bkdwd_2"), ((GROUP, 1_000_000_000),), "", "bkdtg_9 does not exist."),
        (
            route(unenforced=("oauth",)),
            (),
            pages.NOT_ENFORCED,
            "Enabled, but not enforced by this version: oauth.",
        ),
        (route("/a?b"), (), pages.NO_BACKEND, "No request can match the path, since it contains ? or #."),
        (route("/a#b"), (), pages.NO_BACKEND, "No request can match the path, since it contains ? or #."),
        (route(backend="bkdhr_9"), (), pages.NO_BACKEND, "The record of bkdhr_9 is malformed."),
        (route(backend="bkdwd_3"), (), pages.NO_BACKEND, "The record of bkdhr_9 is malformed."),
    ],
)
def test_a_route_leads_to_backends_or_to_a_page(
    made: ServedRoute, weights: tuple[tuple[str, int], ...], page: str, error: str
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
    world = serving(*backends, edge(made)).world
    (target,) = edges.make_plan(world.edges[EDGE], world, NOW).targets
    assert (target.weights, target.page, target.error) == (weights, page, error)


def test_an_edge_with_a_module_that_is_not_enforced_answers_all_with_a_page() -> None:
    world = serving(group(), edge(route(), route("/a", id="r2"), unenforced=("oidc", "saml"))).world
    plan = edges.make_plan(world.edges[EDGE], world, NOW)
    refused = "Enabled, but not enforced by this version: oidc, saml."
    assert plan.page == pages.NOT_ENFORCED
    assert {(it.weights, it.page, it.error) for it in plan.targets} == {((), pages.NOT_ENFORCED, refused)}


def test_exact_paths_come_before_prefixes_and_of_these_the_longest() -> None:
    every = [
        route("/", id="r1"),
        route("/a", id="r2", kind="exact_path"),
        route("/a/b", id="r3"),
        route("/a", id="r4"),
        route("/a/b/c", id="r5", kind="exact_path"),
    ]
    world = serving(edge(*every)).world
    plan = edges.make_plan(world.edges[EDGE], world, NOW)
    assert [it.route.id for it in plan.targets] == ["r5", "r2", "r3", "r4", "r1"]


LED = {f"listener https[{HOST}]", f"routes operator[{HOST}]", f"cluster name/{HOST}"}
OF_EDGE = {f"listener edge/{EDGE}/operator", f"routes edge/{EDGE}"}
WAYS = ("", "/http2", "/proxied", "/proxied/http2", "/bytes")  # to a gateway
OF_GROUP = {f"cluster group/{GROUP}", f"cluster group/{GROUP}/http2"}
OF_ANSWER = {f"cluster answer/{ANSWER}", f"listener answer/{ANSWER}"}


@pytest.mark.parametrize(
    ("fact", "changed"),
    [
        (replace(edge(route()), revision=2), set()),
        (edge(route("/b")), {f"routes edge/{EDGE}"}),
        (edge(), {f"routes edge/{EDGE}", *(f"-{it}" for it in OF_GROUP)}),
        (edge(route(backend=ANSWER)), {f"routes edge/{EDGE}", *OF_ANSWER, *(f"-{it}" for it in OF_GROUP)}),
        (edge(route(), version="1.3"), OF_EDGE),  # the routes before it lead nowhere, under another digest
        (edge(route(), hosts=[]), {f"-listener https[{HOST}]", f"-routes operator[{HOST}]", f"-cluster name/{HOST}",
                                   f"-listener edge/{EDGE}/operator", f"routes edge/{EDGE}"}),
        (Removed(EDGE), {f"-listener https[{HOST}]", f"-routes operator[{HOST}]", f"-cluster name/{HOST}",
                      f"-listener edge/{EDGE}/operator", f"routes edge/{EDGE}", *(f"-{it}" for it in OF_GROUP)}),
        (edge(route(), authorities=["ca_9"]), {f"-cluster name/{HOST}", f"-listener edge/{EDGE}/operator",
                                               f"routes edge/{EDGE}"}),
        (certificate("cert_1", HOST), {f"cluster name/{HOST}", f"listener edge/{EDGE}/cert_1",
                                       f"-listener edge/{EDGE}/operator"}),
        (tunnel("tn_2"), OF_GROUP),
        (Removed("tn_1"), OF_GROUP),
        (tunnel("tn_2", account=B), set()),
        (tunnel("tn_2", app="other"), set()),
        (tunnel("tn_2", app="web", region="eu"), OF_GROUP),
        (tunnel("tn_2", gateway="gw-9"), set()),
        (Removed("gw-1"), {*OF_GROUP, *(f"-cluster gw-1{way}" for way in WAYS)}),
        (group(app="other"), OF_GROUP),
        (Removed(GROUP), {f"routes edge/{EDGE}", *(f"-{it}" for it in OF_GROUP)}),
        (group("bkdtg_2"), set()),
        (response(404), set()),
        (authority(), set()),
        (tunnel("tn_2", name=HOST, app="9"), set()),
        (edge(route(), id="edghts_2", account=B, hosts=[OWN]), set()),
    ],
)  # fmt: skip
def test_a_change_makes_what_it_touches(fact: Update, changed: set[str]) -> None:
    assert told(serving(*WHOLE, tunnel("tn_9", app="9")).update([fact], NOW)) == changed


TWO = (GROUP, "bkdtg_2")
BLUE, GREEN = tunnel("tn_1"), tunnel("tn_2", app="green")


@pytest.mark.parametrize(
    ("children", "facts", "online"),
    [
        (TWO, [BLUE, GREEN], TWO),
        (TWO, [BLUE, GREEN, Removed("tn_1")], ("bkdtg_2",)),
        (TWO, [BLUE, GREEN, Removed("tn_1"), BLUE], TWO),
        (TWO, [BLUE], (GROUP,)),
        (TWO, [], TWO),
        (TWO, [BLUE, GREEN, Removed("gw-1")], TWO),
        (TWO, [BLUE, GREEN, group("bkdtg_2")], TWO),
        (TWO, [BLUE, group("bkdtg_2")], TWO),
        (TWO, [BLUE, GREEN, Removed("bkdtg_2")], (GROUP,)),
        ((GROUP, ANSWER), [], (ANSWER,)),
        ((GROUP, ANSWER), [BLUE], (ANSWER, GROUP)),
    ],
)  # fmt: skip
def test_a_route_leads_to_the_backends_that_are_online(
    children: tuple[str, ...], facts: list[Update], online: tuple[str, ...]
) -> None:
    shared = weighted("bkdwd_1", dict.fromkeys(children, 1))
    made = serving(GATEWAY, group(), group("bkdtg_2", app="green"), response(), shared, edge(route(backend="bkdwd_1")))
    for fact in facts:
        made.update([fact], NOW)
    (target,) = edges.make_plan(made.world.edges[EDGE], made.world, NOW).targets
    assert tuple(id for id, _ in target.online) == tuple(sorted(online))


def test_a_group_that_goes_offline_changes_the_routes_that_share_requests_with_it_and_no_other() -> None:
    shared = edge(route(backend="bkdwd_1"), route("/own", id="edghtsrt_2"))
    other = edge(route(), id="edghts_2", hosts=["b.tunnels.localhost"])
    green, weights = group("bkdtg_2", app="green"), weighted("bkdwd_1", dict.fromkeys(TWO, 1))
    made = serving(GATEWAY, BLUE, GREEN, group(), green, weights, shared, other)
    routes = {f"routes edge/{EDGE}"}
    assert staged(made.update([Removed("tn_1")], NOW)) == [routes, set(), OF_GROUP]
    assert staged(made.update([tunnel("tn_3")], NOW)) == [routes | OF_GROUP, set(), set()]
    assert staged(made.update([tunnel("tn_4")], NOW)) == [OF_GROUP, set(), set()]
    assert staged(serving(GATEWAY).update([group(), other], NOW))[0] >= OF_GROUP


def staged(changes: Changes) -> list[set[str]]:
    return [told(stage) for stage in split_stages(changes)]


def test_an_edge_that_tells_who_visitors_are_leads_to_a_group_another_way() -> None:
    telling = ServedReservation(A, "rd_2", HOST, True, proxy_protocol=True)
    proxied_group = {f"cluster group/{GROUP}/proxied", f"cluster group/{GROUP}/proxied/http2"}
    made = serving(*WHOLE)
    reserved = {f"listener https[{HOST}]", f"routes http[{HOST}]"}
    assert told(made.update([telling], NOW)) == {
        f"routes edge/{EDGE}",
        *proxied_group,
        *reserved,
        *(f"-{it}" for it in OF_GROUP),
    }
    beside = edge(route(), id="edghts_2", hosts=["b.tunnels.localhost"])
    both = told(made.update([beside], NOW))
    assert both >= OF_GROUP
    assert not both & {f"-{it}" for it in proxied_group}
    assert told(made.update([Removed("edghts_2")], NOW)) >= {f"-{it}" for it in OF_GROUP}
    assert told(made.update([Removed("rd_2")], NOW)) == {
        f"routes edge/{EDGE}",
        f"listener https[{HOST}]",
        f"-routes http[{HOST}]",
        *OF_GROUP,
        *(f"-{it}" for it in proxied_group),
    }


def test_a_whole_edge_is_what_leads_to_it_its_listener_its_routes_and_its_backends() -> None:
    made = serving(GATEWAY, tunnel(), group())
    made.world.set_ready(A, frozenset({HOST}))
    assert told(made.update([edge(route())], NOW)) == LED | OF_EDGE | OF_GROUP


def test_connections_from_before_a_stricter_handshake_find_no_routes() -> None:
    made = serving(*WHOLE, authority())
    stands = made.planned_status(EDGE)
    assert stands
    (before,) = {key for key in stands.hostports[0].keys if key.kind == "routes"}
    changes = made.update([edge(route(), authorities=["ca_1"])], NOW)
    closed: Any = changes[before]
    assert [host["domains"] for host in closed.body["virtual_hosts"]] == [["*"]]
    assert len([key for key in changes if key.kind == "routes"]) == 2
    assert made.update([], NOW + timedelta(seconds=59)) == {}
    assert made.update([], NOW + timedelta(seconds=60)) == {before: None}
    assert made.update([], NOW + timedelta(seconds=61)) == {}


def test_routes_that_are_back_are_not_removed() -> None:
    made = serving(*WHOLE)
    made.update([Removed(EDGE)], NOW)
    made.update([edge(route())], NOW)
    assert made.update([], NOW + timedelta(hours=1)) == {}


def test_a_name_passes_from_a_tunnel_to_an_edge_and_back() -> None:
    made = serving(GATEWAY, tunnel(name=HOST), certificate("cert_1", HOST))
    of_tunnel, of_edge = {"listener certificate/cert_1", "routes cert_1"}, {f"listener edge/{EDGE}/cert_1"}
    assert told(made.update([edge()], NOW)) == LED | of_edge | {f"routes edge/{EDGE}", *(f"-{it}" for it in of_tunnel)}
    assert made.sites == {}
    back = told(made.update([Removed(EDGE)], NOW))
    assert back == of_tunnel | {f"cluster name/{HOST}", f"routes edge/{EDGE}", *(f"-{it}" for it in of_edge)}
    assert list(made.sites) == [HOST]


@pytest.mark.parametrize("name", ["edghts_1", "edgtls_1"])
def test_neither_a_tunnel_nor_a_wildcard_has_the_name_of_an_edge_that_cannot_be_understood(name: str) -> None:
    own, below = tunnel("tn_2", name=HOST), edge(route(), id="edghts_2", hosts=["*.tunnels.localhost"])
    made = serving(*WHOLE, own, below)
    lost = replace(edge(id=name), error=UNREADABLE)
    made.update([Removed(EDGE), lost], NOW)
    assert (made.world.edge_at_host(HOST), made.world.site(HOST, NOW)) == (lost, None)
    assert edges.make_plan(below, made.world, NOW).served_elsewhere == (HOST,)
    standing = made.planned_status(name)
    assert standing
    assert standing.hostports == (PlannedHostport(f"{HOST}:443", "refused", UNREADABLE),)


def test_no_tunnel_has_the_port_of_an_edge_that_cannot_be_understood() -> None:
    own = tunnel("tn_2", name="tunnels.localhost:20001", proto="tcp")
    port = edge(id="edgtcp_1", hosts=["tunnels.localhost:20001"])
    made = serving(GATEWAY, own, replace(port, error=UNREADABLE))
    assert made.world.tunnel_at("20001") is None
    assert set(made.update([Removed("edgtcp_1")], NOW)) == {Key("listener", "port/20001")}


def test_a_wildcard_leaves_the_names_below_it_that_are_served_elsewhere() -> None:
    wild = edge(route(), hosts=["*.t.tunnels.localhost"])
    made = serving(GATEWAY, group(), wild)
    other = edge(id="edghts_2", hosts=["x.t.tunnels.localhost"])
    changes = made.update([other], NOW)
    bodies: list[Any] = [it.body for key, it in changes.items() if it and key.name.startswith(f"edge/{EDGE}/")]
    assert ["x.t.tunnels.localhost"] in [host["domains"] for host in bodies[-1]["virtual_hosts"]]
    assert told(made.update([Removed("edghts_2")], NOW)) >= {f"routes edge/{EDGE}"}


WILD = edge(route(), hosts=["*.example.com"])
PROOF: list[Update] = [ServedReservation(A, "rd_0", "*.example.com", True), certificate("cert_1", "*.example.com")]
CLOSED = {"listener https[shop.example.com]", "routes operator[shop.example.com]"}


@pytest.mark.parametrize("place", ["edge", "upstream"])
def test_a_wildcard_does_not_stand_for_what_is_proved_to_be_another_account_s(place: TlsEnd) -> None:
    wild = replace(WILD, terminate_at=place)
    made, proved = serving(GATEWAY, group(), tunnel(), wild, *PROOF), replace(MINE, account=B)
    routes = {f"routes edge/{EDGE}"} if place == "edge" else set()
    assert told(made.update([proved], NOW)) == CLOSED | routes
    assert edges.make_plan(wild, made.world, NOW).served_elsewhere == ((OWN,) if place == "edge" else ())
    assert made.world.accounts_of_reservation(proved) == {A}
    gone = {f"-{it}" for it in CLOSED}
    assert told(made.update([replace(proved, is_proved=False)], NOW)) == gone | routes
    assert told(made.update([proved], NOW)) == CLOSED | routes
    assert told(made.update([Removed(EDGE)], NOW)) >= gone
    assert made.world.hosts_of_reservation(proved) == frozenset()
    assert told(made.update([wild], NOW)) >= CLOSED


@pytest.mark.parametrize(
    "held",
    [
        replace(MINE, account=A),
        replace(MINE, account=B, is_proved=False),
        replace(MINE, account=B, domain="*.shop.example.com"),
        replace(MINE, account=B, domain="a.shop.example.com"),
        replace(MINE, account=B, domain="example.com"),
    ],
)
def test_a_wildcard_stands_for_whatever_is_not_proved_to_be_another_account_s(held: ServedReservation) -> None:
    assert told(serving(GATEWAY, group(), tunnel(), WILD, *PROOF).update([held], NOW)) == set()


def test_a_name_that_is_withheld_is_a_tunnel_s_of_its_account_and_passes_with_the_wildcard() -> None:
    proved, own = replace(MINE, account=B), replace(tunnel("tn_2", account=B, name=OWN), labels={})
    made = serving(GATEWAY, group(), WILD, *PROOF, proved, own, certificate("cert_b", OWN, account=B))
    site = made.world.site(OWN, NOW)
    assert site
    assert site.tunnel == own
    assert told(made.update([Removed("tn_2")], NOW)) >= CLOSED
    moved = ServedReservation(B, "rd_9", "*.example.com", True)
    other: list[Update] = [Removed("rd_0"), moved, replace(WILD, id="edghts_2", account=B)]
    assert told(made.update(other, NOW)) >= {f"-{it}" for it in CLOSED}


def test_a_host_whose_reservation_cannot_be_understood_is_closed_and_the_others_are_not() -> None:
    unreadable = ServedReservation(A, "rd_2", HOST, True, is_readable=False)
    beside = "beside.tunnels.localhost"
    made = serving(GATEWAY, group(), unreadable, edge(route(), hosts=[HOST, beside]), certificate("cert_1", HOST))
    found = made.planned_status(EDGE)
    assert found
    assert [(it.hostport, it.state, it.error) for it in found.hostports] == [
        (f"{HOST}:443", "refused", "The record of the host's reservation is malformed."),
        (f"{beside}:443", "live", ""),
    ]


def test_how_an_edge_stands() -> None:
    made = serving(*WHOLE[:3], tunnel("tn_2"), certificate("cert_1", HOST), edge(
        route(), route("/x", None, id="edghtsrt_2"), route("/y", unenforced=("oauth",), id="edghtsrt_3"),
        hosts=[HOST, OWN],
    ))  # fmt: skip
    found = made.planned_status(EDGE)
    assert found
    (routes,) = {key for key in found.hostports[0].keys if key.kind == "routes"}
    keys = {routes, Key("cluster", f"name/{HOST}"), Key("listener", f"edge/{EDGE}/cert_1"), Key("secret", "cert_1")}
    unproved = "The account has not proved the domain: verify its reservation."
    assert found.hostports == (
        PlannedHostport(f"{HOST}:443", "live", "", "cert_1", NOW + timedelta(1), frozenset(keys)),
        PlannedHostport(f"{OWN}:443", "unproved", unproved),
    )
    group_keys = [Key("cluster", f"group/{GROUP}"), Key("cluster", f"group/{GROUP}/http2")]
    refused = "Enabled, but not enforced by this version: oauth."
    assert set(found.routes) == {
        PlannedRoute("edghtsrt_1", "live", "", frozenset([routes, *group_keys])),
        PlannedRoute("edghtsrt_2", "live", "", frozenset([routes])),
        PlannedRoute("edghtsrt_3", "refused", refused, frozenset([routes])),
    }
    assert found.backends == ((GROUP, 2),)


OF_ROUTES = Key("routes", "edge")
TELLING = ServedReservation(A, "rd_2", HOST, True, proxy_protocol=True)
NO_GROUP = "The backend has no tunnel group. bkdhr_1 is an HTTP response: its share of connections is closed."
SHARED = "bkdhr_1 is an HTTP response: its share of connections is closed."


@pytest.mark.parametrize(
    ("facts", "state", "error", "keys", "groups"),
    [
        ((edge(route(backend="bkdtg_9")),), "refused", "bkdtg_9 does not exist.", [OF_ROUTES], 0),
        ((edge(route(backend=None)),), "live", "", [OF_ROUTES], 0),
        ((edge(route(backend=None), hosts=[OWN]),), "live", "", [], 0),
        (
            (edge(route(backend=ANSWER)),),
            "live",
            "",
            [OF_ROUTES, Key("cluster", f"answer/{ANSWER}"), Key("listener", f"answer/{ANSWER}")],
            0,
        ),
        (
            (edge(route()), TELLING),
            "live",
            "",
            [OF_ROUTES, Key("cluster", f"group/{GROUP}/proxied"), Key("cluster", f"group/{GROUP}/proxied/http2")],
            1,
        ),
        ((edge(route(backend=ANSWER), place="upstream"),), "refused", NO_GROUP, [], 0),
        ((edge(route(backend="bkdwd_1"), place="upstream"),), "live", SHARED, [Key("cluster", f"stream/{EDGE}")], 1),
        ((edge(route(), hosts=[OWN], place="upstream"),), "live", "", [], 1),
    ],
)
def test_how_a_route_stands(facts: tuple[Update, ...], state: str, error: str, keys: list[Key], groups: int) -> None:
    made = serving(GATEWAY, tunnel(), group(), response(), weighted("bkdwd_1", {GROUP: 1, ANSWER: 1}), *facts)
    found = made.planned_status(EDGE)
    assert found
    (stands,) = found.routes
    named = {OF_ROUTES if it.kind == "routes" else it for it in stands.keys}
    assert (stands.state, stands.error, named) == (state, error, set(keys))
    assert found.backends == ((GROUP, 1),) * groups


def test_of_several_certificates_that_envoy_cannot_use_each_is_left() -> None:
    both = certificate("cert_1", HOST), certificate("cert_2", "*.t.tunnels.localhost")
    made = serving(*WHOLE, *both)
    assert made.reject_certificates({"cert_9": "no"}, NOW) == {}
    left = {f"cluster name/{HOST}", f"listener edge/{EDGE}/operator", f"-listener edge/{EDGE}/cert_1"}
    assert told(made.reject_certificates({"cert_1": "no", "cert_2": "no", "cert_9": "no"}, NOW)) == left
    found = made.planned_status(EDGE)
    assert found
    assert [(it.state, it.error) for it in found.hostports] == [("live", "A certificate was refused: no")]


@pytest.mark.parametrize(
    ("fact", "touched"),
    [
        (edge(), {EDGE}),
        (Removed(EDGE), {EDGE}),
        (tunnel("tn_2"), {EDGE}),
        (tunnel("tn_2", app="x"), set()),
        (Removed(GROUP), {EDGE}),
        (Removed("gw-1"), {EDGE}),
        (certificate("cert_1", HOST), {EDGE}),
        (edge(id="edghts_2", hosts=["b.tunnels.localhost"]), {"edghts_2"}),
    ],
)
def test_control_hears_which_edges_may_stand_otherwise(fact: Update, touched: set[str]) -> None:
    made = serving(*WHOLE)
    made.update([fact], NOW)
    assert made.take_changed_edges() == touched
    assert made.take_changed_edges() == set()


def test_what_an_edge_leads_to_through_others_touches_it() -> None:
    made = serving(GATEWAY, tunnel(), group(), weighted("bkdwd_1", {"bkdwd_2": 1}), weighted("bkdwd_2", {GROUP: 1}))
    apply(made, edge(route(backend="bkdwd_1")))
    assert told(made.update([weighted("bkdwd_2", {GROUP: 1, ANSWER: 1}), response()], NOW)) == {
        f"routes edge/{EDGE}",
        *OF_ANSWER,
    }


def test_an_edge_that_holds_visitors_back_is_closed_when_envoy_refuses_its_routes() -> None:
    made = serving(*WHOLE[:4], edge(route(agents=UserAgentModule(deny=["bot"])), route("/x", id="edghtsrt_2")))
    stands = made.planned_status(EDGE)
    assert stands
    (routes,) = {key for key in stands.hostports[0].keys if key.kind == "routes"}
    assert made.reject_routes({f"{routes.name}/before": "no"}, NOW) == {}
    closed: Any = made.reject_routes({routes.name: "regex '*' is too large", "edge/edghts_9/x": "else"}, NOW)[routes]
    (_, all_of_it, *_) = closed.body["virtual_hosts"][0]["routes"]
    assert all_of_it == {
        "match": {"prefix": "/"},
        "direct_response": {"status": 503, "body": {"inline_string": pages.NOT_ENFORCED}},
    }
    stands = made.planned_status(EDGE)
    assert stands
    assert {(it.state, it.error) for it in stands.routes} == {("refused", "regex '*' is too large")}
    assert told(made.update([edge(route())], NOW)) == {f"routes edge/{EDGE}"}


def test_an_edge_that_is_open_stays_as_it_was_when_envoy_refuses_its_routes() -> None:
    made = serving(*WHOLE)
    stands = made.planned_status(EDGE)
    assert stands
    (routes,) = {key for key in stands.hostports[0].keys if key.kind == "routes"}
    assert made.reject_routes({routes.name: "no"}, NOW) == {}
    assert made.planned_status(EDGE) == stands
