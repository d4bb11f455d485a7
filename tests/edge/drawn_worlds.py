"""Records of several accounts, and requests to them, as hypothesis draws them for the edge and its model."""

from collections import defaultdict
from itertools import zip_longest
from random import Random
from typing import Any

from hypothesis import strategies as st

from chalicelib import modules
from chalicelib.http import messages
from chalicelib.http.module import Module
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.headers.changed_headers import HeadersModule
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy, parse_cidr
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.basic_auth import BasicAuthRule
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.tls_termination import TlsEnd, TlsTerminationModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.modules.webhook_verification import WebhookRule
from chalicelib.model.edges.served import (
    UNREADABLE,
    Modules,
    ServedAuthority,
    ServedBackend,
    ServedEdge,
    ServedRoute,
)
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tunnels.tunnels import ServedTunnel
from tests.edge.edge_modules import enabled, extended
from tests.edge.model_of_requests import Records, Request, meets
from tests.modules.samples import SAMPLES

ACCOUNTS = ("acct_a", "acct_b")
DOMAIN = "tunnels.localhost"
GATEWAY = "gw-1"
_PATHS = ("/", "/a", "/a/", "/a/b", "/ab", "/b", "/a/b/c", "/A")
_AGENTS = ("", "curl/8", "Mozilla/5.0 (bot, good)", "évil", "bot", "good")
_PATTERNS = ("bot", "^curl", r"good\b", "^$", ".", "(?i)MOZILLA", r"\Qcurl/", "é", "^[é]{2}", r"\.0 \(")
_HEADERS = st.builds(
    lambda add, remove: HeadersModule(add=add, remove=remove),
    st.dictionaries(st.sampled_from(["X-One", "X-Two"]), st.sampled_from(["", "100% of it"]), max_size=2),
    st.lists(st.sampled_from(["X-Three", "Cookie"]), max_size=2, unique=True),
)
_LABELS = st.dictionaries(st.sampled_from(["app", "region"]), st.sampled_from(["x", "y"]), max_size=2)
_AMBIGUOUS = ("//a", "/b/../a", "/a/%62", "/%2fa?x")
_TARGETS = [*(path + end for path in _PATHS for end in ("", "", "?/b", "x")), *_AMBIGUOUS]
_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.3", "1.3")
_NAMES = ("one", "two", "x.team", "y.team", "*.team", "x.y.team", "*.y.team")
_NAMES_WITHOUT_EDGE = ("three", "z.team", "z.y.team", "a.b.y.team")
_HOSTS = [f"{name}.{DOMAIN}" for name in (*_NAMES, *_NAMES_WITHOUT_EDGE) if "*" not in name]


def _ids(prefix: str, count: int) -> list[str]:
    return [f"{prefix}_{number:027}" for number in range(count)]


GROUPS, ANSWERS, SHARED = _ids("bkdtg", 4), _ids("bkdhr", 3), _ids("bkdwd", 4)
AUTHORITIES, TUNNELS, EDGES = _ids("ca", 3), _ids("tn", 6), _ids("edghts", len(_NAMES))
POLICIES = _ids("ipp", 4)
(RESERVATION,), TUNNEL, NAME = _ids("rd", 1), _ids("tn", 7)[6], f"three.{DOMAIN}"
_RESTRICTION = st.builds(
    lambda ids: IpRestrictionModule(ip_policy_ids=ids),
    st.lists(st.sampled_from(POLICIES), min_size=1, max_size=2, unique=True),
)
_NETWORKS = st.lists(
    st.sampled_from(
        [parse_cidr(network) for network in ("127.0.0.0/8", "::ffff:127.0.0.1", "0.0.0.0/0", "::/0", "192.0.2.1")]
    ),
    max_size=2,
    unique=True,
)
_BACKENDS = [*GROUPS, *ANSWERS, *SHARED]


@st.composite
def records(draw: st.DrawFn) -> Records:
    """Draw what two accounts have; some of it names what is not there, or is another's."""
    accounts = st.sampled_from(draw(st.sampled_from([(*ACCOUNTS[:1] * 5, ACCOUNTS[1]), ACCOUNTS])))
    tunnels = [
        ServedTunnel(draw(accounts), id, GATEWAY, "", labels=draw(_LABELS)) for id in TUNNELS[draw(st.integers(0, 6)) :]
    ]
    pem = st.sampled_from([*[True] * 7, False])  # one that cannot be understood has none
    authorities = [ServedAuthority(draw(accounts), id, id * draw(pem)) for id in AUTHORITIES if draw(st.integers(0, 3))]
    backends = [ServedBackend(draw(accounts), id, draw(_value(id))) for id in _BACKENDS if draw(st.integers(0, 4))]
    rules = st.none() | st.builds(lambda allow, deny: Rules(tuple(allow), tuple(deny)), _NETWORKS, _NETWORKS)
    policies = [ServedPolicy(draw(accounts), id, draw(rules)) for id in POLICIES if draw(st.integers(0, 3))]
    team = draw(accounts)  # a name below the domain is one account's, with all below it
    named_tunnels = [ServedTunnel(team, TUNNEL, GATEWAY, NAME)]
    reservations = [_drawn_reservation(draw, team)] if draw(st.integers(0, 4)) else []
    edges = [
        _drawn_edge(draw, id, name, team) for id, name in zip(EDGES, _NAMES, strict=True) if draw(st.integers(0, 2))
    ]
    return Records(
        {edge.id: edge for edge in edges},
        {backend.id: backend for backend in backends},
        {authority.id: authority for authority in authorities},
        {tunnel.id: tunnel for tunnel in (*tunnels, *named_tunnels)},
        {policy.id: policy for policy in policies},
        {reservation.id: reservation for reservation in reservations},
    )


def _drawn_reservation(draw: st.DrawFn, account: str) -> ServedReservation:
    restricted = st.builds(
        lambda module, enabled: {"ip_restriction": {**vars(module), "enabled": enabled}},
        _RESTRICTION,
        st.sampled_from([True, True, True, False]),
    )
    modules: Any = draw(st.sampled_from([{}, {"oidc": {}}]) if draw(st.integers(0, 4)) == 4 else restricted)
    is_readable = draw(st.integers(0, 9)) < 9
    return ServedReservation(account, RESERVATION, NAME, True, is_readable=is_readable, modules=modules)


def _drawn_edge(draw: st.DrawFn, id: str, name: str, account: str) -> ServedEdge:
    routes: list[ServedRoute] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["exact_path", "path_prefix"]))
        match = draw(st.sampled_from(_PATHS))
        if (kind, match) not in {(route.match_type, route.match) for route in routes}:
            routes.append(ServedRoute(f"edghtsrt_{id[-3:]}{number:024}", kind, match, draw(_modules())))
    mutual = st.builds(
        lambda ids: MutualTlsModule(certificate_authority_ids=ids),
        st.lists(st.sampled_from(AUTHORITIES), min_size=1, max_size=2, unique=True),
    )
    termination = st.builds(
        lambda version: TlsTerminationModule(min_version=version), st.sampled_from([None, "1.0", "1.1", "1.2", "1.3"])
    )
    modules = enabled(
        mutual_tls=draw(mutual) if draw(st.integers(0, 2)) == 2 else None,
        tls_termination=draw(st.none() | termination),
        ip_restriction=draw(_RESTRICTION) if draw(st.integers(0, 4)) == 4 else None,
        unenforced=draw(st.sampled_from([*[()] * 6, ("oidc",)])),
    )
    tls_ends: list[TlsEnd | None] = ["edge", "edge", "edge", "upstream", None]
    tls_end, hostports = draw(st.sampled_from(tls_ends)), (f"{name}.{DOMAIN}:443",)
    if draw(st.integers(0, 9)) == 9:
        return ServedEdge(account, id if tls_end else f"edgtls{id[6:]}", 1, hostports, error=UNREADABLE)
    if tls_end is None:
        backend = draw(st.builds(lambda id: BackendModule(backend_id=id), st.sampled_from(_BACKENDS)))
        return ServedEdge(account, f"edgtls{id[6:]}", 1, hostports, modules=extended(modules, backend=backend))
    if tls_end == "upstream" and draw(st.booleans()):
        route = ServedRoute(f"edghtsrt_{id[-3:]}{9:024}", "path_prefix", "/", draw(_modules()))
        return ServedEdge(account, id, 1, hostports, tls_end, enabled(), (route,))
    return ServedEdge(account, id, 1, hostports, tls_end, modules, tuple(routes))


def _sample(module: Module) -> list[Any]:
    """Return what the edge obeys of a module's samples."""
    stored = [module.stored.from_request(_values(module, value.request), {}, None) for value in SAMPLES[module.path]]
    return [_DECLARED[module.name].read(value) for value in stored]


def _values(module: Module, request: dict[str, Any]) -> dict[str, Any]:
    shape, errors = messages.read(module.shape, request, {})
    assert shape, errors
    return shape.values()


_DECLARED = {module.name: module for module in enforced_modules.EVERY}
_DRAWN = {  # by `_modules`, which draws their values too
    *("backend", "ip_restriction", "oauth", "request_headers", "response_headers", "user_agent_filter"),
    *("basic_auth", "webhook_verification"),
}
SAMPLED = {module.name: _sample(module) for module in modules.of(kinds.HTTPS_EDGE_ROUTES) if module.name not in _DRAWN}


@st.composite
def _modules(draw: st.DrawFn) -> Modules:
    patterns = st.lists(st.sampled_from(_PATTERNS), max_size=2)
    agents = st.builds(lambda allow, deny: UserAgentModule(allow=allow, deny=deny), patterns, patterns)
    backends = st.sampled_from([None, *(BackendModule(backend_id=id) for id in (None, *_BACKENDS))])
    return enabled(
        draw(backends),
        user_agent_filter=draw(st.none() | agents),
        request_headers=draw(st.none() | _HEADERS),
        response_headers=draw(st.none() | _HEADERS),
        **{name: draw(st.sampled_from([None, None, None, *values])) for name, values in SAMPLED.items()},
        ip_restriction=draw(_RESTRICTION) if draw(st.integers(0, 3)) == 3 else None,
        basic_auth=draw(st.sampled_from([None, None, None, None, BasicAuthRule("0123456789abcdef")])),
        webhook_verification=draw(st.sampled_from([None, None, None, None, WebhookRule("GITHUB", "0123456789abcdef")])),
        unenforced=draw(st.sampled_from([*[()] * 6, ("oauth",)])),
    )


def _value(id: str) -> st.SearchStrategy[HttpResponse | TunnelGroup | Weighted | None]:
    return st.integers(0, 9).flatmap(lambda chance: _understood(id) if chance < 9 else st.none())


def _understood(id: str) -> st.SearchStrategy[HttpResponse | TunnelGroup | Weighted]:
    if id in ANSWERS:
        return st.builds(
            lambda status: HttpResponse(status_code=status, body=id), st.sampled_from([200, 404, 418, 103])
        )
    if id in GROUPS:
        return st.builds(lambda labels: TunnelGroup(labels=labels), _LABELS)
    children = st.dictionaries(st.sampled_from(_BACKENDS), st.sampled_from([0, 1, 9, 10_000]), max_size=4)
    return st.builds(lambda backends: Weighted(backends=backends), children)


def telling_requests(world: Records, count: int, chance: Random) -> list[Request]:
    """Return so many requests, that meet as many different kinds of things as they may."""
    requests_by_outcome: defaultdict[frozenset[str], list[Request]] = defaultdict(list)
    paths = [*_TARGETS, *3 * [route.match for edge in world.edges.values() for route in edge.routes]]
    for _ in range(10 * count):
        agents = chance.choices(_AGENTS, k=chance.randrange(3))
        client = chance.choice(["", *AUTHORITIES])
        host, path, version = chance.choice(_HOSTS), chance.choice(paths), chance.choice(_VERSIONS)
        request = Request(host, path, tuple(agents), client, version)
        requests_by_outcome[frozenset(meeting.partition("_")[0] for meeting in meets(request, world))].append(request)
    in_turn = zip_longest(*requests_by_outcome.values())
    return [request for requests in in_turn for request in requests if request][:count]
