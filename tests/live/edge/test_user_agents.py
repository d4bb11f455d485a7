"""User agent filters on a real edge: what they refuse, and what the worst of them costs Envoy."""

from collections.abc import Iterator

import pytest

from chalicelib.model.edges import user_agents
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from tests.conftest import least
from tests.edge.worst_filters import BAR, WORST, agents, cpu, headers, serve
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import ENVOY, Edge, running, until

pytestmark = needs_envoy
STORED = UserAgentModule(deny=[f"[ab]*a[ab]{{300}}{sign}" for sign in "XYZ"])  # what earlier versions accepted


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge with an edge "open" without a filter, and one for each of the worst filters."""
    with running(
        tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None, max_requests_per_visitor=1_000_000
    ) as running_edge:
        if ENVOY:
            serve(running_edge, "open", None)
            for index, rules in enumerate(WORST.values()):
                serve(running_edge, f"worst{index}", rules)
        yield running_edge


def test_a_user_agent_above_the_bound_is_refused_where_a_filter_reads_it(edge: Edge) -> None:
    serve(edge, "long", UserAgentModule(deny=["^a", "x$"]))

    def status(agent: str, path: str = "/") -> str:
        return edge.status("long", "-H", f"User-Agent: {agent}", path=path)

    longest = "b" * user_agents.MAX_BYTES
    assert [status(longest), status(longest + "b"), status("a" + "b" * 50_000), status("a")] == [
        "200",
        "431",
        "431",
        "403",
    ]
    assert status(longest + "b", "/open") == "200"
    joined = ["-H", f"User-Agent: {longest[:-1]}", "-H", "User-Agent: b"]
    assert edge.status("long", *joined) == "431"
    assert edge.status("long", "-H", "User-Agent:") == "403"


def test_a_stored_filter_that_costs_too_much_closes_its_route_and_says_so(edge: Edge) -> None:
    served_edge = serve(edge, "stored", STORED)
    assert (edge.status("stored"), edge.status("stored", path="/open")) == ("503", "200")
    until(lambda: (status_now := edge.store.status(served_edge)) is not None and status_now.state == "partly")
    edge_status = edge.store.status(served_edge)
    assert edge_status
    error = "The user agent filter needs 959 RE2 instructions per byte, and at most 300 are allowed."
    assert {(route.state, route.error) for route in edge_status.routes} == {("refused", error), ("live", "")}


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
    rules, index = WORST[name], list(WORST).index(name)
    assert 0.7 * user_agents.MAX_COST <= user_agents.matching_cost(rules) <= user_agents.MAX_COST or name == "words"

    def above() -> float:
        with_filter, without = (cpu(edge, name, request_line, agents(rules)) for name in (f"worst{index}", "open"))
        return with_filter - without

    assert least(above, bound=BAR) <= BAR


def test_names_of_headers_cost_envoy_little(edge: Edge) -> None:
    def above() -> float:
        begin = b"GET / HTTP/1.1\r\n"
        as_names = cpu(edge, "open", begin, lambda: headers(are_names=True))
        return as_names - cpu(edge, "open", begin, lambda: headers(are_names=False))

    assert least(above, bound=BAR) <= BAR
