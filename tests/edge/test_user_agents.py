"""User agent filters on a real edge: what they refuse, and what the worst of them costs Envoy."""

import random
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chalicelib import ids
from chalicelib.model import user_agents
from chalicelib.model.backends import HttpResponse, TunnelGroup
from chalicelib.model.modules import Backend, UserAgentFilter
from chalicelib.model.served import Modules, ServedBackend, ServedEdge, ServedRoute
from tests.conftest import least
from tests.edge.conftest import needs_envoy
from tests.edge.running import ENVOY, Edge, running, until

ACCOUNT, BAR = "acct_filters", 3  # milliseconds of CPU
_COUNT = 60  # requests of a round
pytestmark = needs_envoy
STORED = UserAgentFilter(deny=[f"[ab]*a[ab]{{300}}{sign}" for sign in "XYZ"])  # what earlier versions accepted


def _words() -> list[str]:
    chance = random.Random(1)
    return sorted({"".join(chance.choice("ab") for _ in range(38)) for _ in range(100)})


WORST = {
    "one repetition": UserAgentFilter(deny=["[ab]*a[ab]{253}X"]),
    "one in each list": UserAgentFilter(allow=["a[ab]{104}X"], deny=["b[ab]{104}X"]),
    "many repetitions": UserAgentFilter(deny=[f"{'ab' * place}a[ab]{{45}}X" for place in range(4)]),
    "groups with names": UserAgentFilter(deny=[f"(?P<a>a[ab]{{20}}{sign})" for sign in "XYZU"]),
    "a byte": UserAgentFilter(deny=[r"a\C{240}X"]),
    "words": UserAgentFilter(allow=_words(), deny=[f"(?i){word}" for word in _words()]),
}


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge with an edge "open" without a filter, and one for each of the worst filters."""
    with running(
        tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None, max_requests_per_visitor=1_000_000
    ) as started:
        if ENVOY:
            _serve(started, "open", None)
            for place, rules in enumerate(WORST.values()):
                _serve(started, f"worst{place}", rules)
        yield started


def _serve(edge: Edge, name: str, rules: UserAgentFilter | None) -> ServedEdge:
    """Serve an edge whose route for all paths has a filter, and another one has none."""
    answer = ServedBackend(ACCOUNT, ids.new("bkdhr"), HttpResponse(body="open\n"))
    group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "none"}))
    for backend in (answer, group):
        edge.store.keep(backend)
    modules = Modules(backend=Backend(backend_id=answer.id), user_agent_filter=rules)
    routes = (
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", modules),
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/open", replace(modules, user_agent_filter=None)),
        ServedRoute(
            ids.new("edghtsrt"), "path_prefix", "/group", replace(modules, backend=Backend(backend_id=group.id))
        ),
    )
    made = ServedEdge(ACCOUNT, ids.new("edghts"), 1, (f"{name}.{edge.settings.tunnel_domain}:443",), routes=routes)
    edge.store.keep(made)
    until(lambda: edge.status(name, path="/open") == "200")
    return made


def test_a_user_agent_above_the_bound_is_refused_where_a_filter_reads_it(edge: Edge) -> None:
    _serve(edge, "long", UserAgentFilter(deny=["^a", "x$"]))

    def status(agent: str, path: str = "/") -> str:
        return edge.status("long", "-H", f"User-Agent: {agent}", path=path)

    most = "b" * user_agents.MAX_BYTES
    assert [status(most), status(most + "b"), status("a" + "b" * 50_000), status("a")] == ["200", "431", "431", "403"]
    assert status(most + "b", "/open") == "200"
    joined = ["-H", f"User-Agent: {most[:-1]}", "-H", "User-Agent: b"]
    assert edge.status("long", *joined) == "431"
    assert edge.status("long", "-H", "User-Agent:") == "403"


def test_a_stored_filter_that_costs_too_much_closes_its_route_and_says_so(edge: Edge) -> None:
    made = _serve(edge, "stored", STORED)
    assert (edge.status("stored"), edge.status("stored", path="/open")) == ("503", "200")
    until(lambda: (told := edge.store.status(made.id)) is not None and told.state == "partly")
    found = edge.store.status(made.id)
    assert found
    error = "The user agent filter takes 959 instructions of RE2 for a byte, and at most 300 are served."
    assert [(it.state, it.error) for it in found.routes] == [("refused", error), ("live", ""), ("refused", error)]


REQUESTS = {
    "gRPC": b"POST /group HTTP/1.1\r\ncontent-length: 0\r\ncontent-type: application/grpc\r\n",
    "usual": b"GET / HTTP/1.1\r\n",
}


@pytest.mark.parametrize("path", ["/;/open", "/x/..%3b/open", "/%252e%252e/open", "/%256fpen", "/open%3b", "/open;x"])
@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
def test_paths_that_upstreams_read_as_another_one_pass_by_no_filter(edge: Edge, path: str, protocol: str) -> None:
    assert edge.status("worst0", "--path-as-is", protocol, path=path) == "400"


@pytest.mark.parametrize("request_line", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("name", WORST)
def test_the_worst_filters_cost_envoy_little_for_the_worst_user_agents(
    edge: Edge, name: str, request_line: bytes
) -> None:
    rules, place = WORST[name], list(WORST).index(name)
    assert 0.7 * user_agents.MAX_COST <= user_agents.cost(rules) <= user_agents.MAX_COST or name == "words"

    def agents() -> bytes:
        if name == "words":
            return b"".join(random.choice(rules.allow)[: random.randint(1, 38)].encode() for _ in range(50))[:512]
        return bytes(random.choice(b"ab") for _ in range(512))

    def above() -> float:
        with_filter, without = (_cpu(edge, it, request_line, agents) for it in (f"worst{place}", "open"))
        return with_filter - without

    assert least(above, bound=BAR) <= BAR


_PARTS = b"user auth email group role identity subject jwt admin client ip real host url remote - - -".split()


def test_names_of_headers_cost_envoy_little(edge: Edge) -> None:
    def headers(*, are_names: bool) -> bytes:
        texts = [b"x-" + b"-".join(random.choices(_PARTS, k=100))[:590] for _ in range(95)]
        return b"\r\n".join([b"me", *(b"%b: a" % it if are_names else b"a: %b" % it for it in texts)])

    def above() -> float:
        begin = b"GET / HTTP/1.1\r\n"
        as_names = _cpu(edge, "open", begin, lambda: headers(are_names=True))
        return as_names - _cpu(edge, "open", begin, lambda: headers(are_names=False))

    assert least(above, bound=BAR) <= BAR


def _cpu(edge: Edge, name: str, begin: bytes, agents: Callable[[], bytes]) -> float:
    """Return the milliseconds of Envoy's CPU for a request, the least of five rounds."""
    with edge.connect(name, "http/1.1") as connection:
        return min(_round(connection, edge, name, begin, agents) for _ in range(5))


def _round(connection: ssl.SSLSocket, edge: Edge, name: str, begin: bytes, agents: Callable[[], bytes]) -> float:
    host, envoy = f"{name}.{edge.settings.tunnel_domain}".encode(), _envoy(edge.settings.directory)
    before = _used(envoy)
    for _ in range(_COUNT):
        connection.sendall(b"%bhost: %b\r\nuser-agent: %b\r\n\r\n" % (begin, host, agents()))
        assert connection.recv(10_000).startswith(b"HTTP/1.1 ")
    return (_used(envoy) - before) / _COUNT


def _used(process: Path) -> float:
    """Return the milliseconds of CPU that a process has used."""
    return sum(int(it.read_text().split()[0]) for it in process.glob("task/*/schedstat")) / 1e6


def _envoy(directory: Path) -> Path:
    """Return the folder in /proc of the Envoy that runs in a directory."""
    found = (it.parent for it in Path("/proc").glob("[0-9]*/cwd") if it.resolve() == directory)
    return next(it for it in found if (it / "comm").read_text().startswith("envoy"))
