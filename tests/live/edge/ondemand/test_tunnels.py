"""Tunnels and edges share one HTTP manager: upstreams, error pages, headers and access log of each."""

from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection

import pytest

from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import RouteTarget
from chalicelib.model.tunnels.gateways import Gateway
from edge.link.proxy_protocol import Header
from tests.conftest import free_port
from tests.edge.plan import worlds
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.gateways import gateway
from tests.live.edge.ondemand.tables import GATEWAY, Table, ask, running
from tests.live.edge.running import until

pytestmark = needs_envoy
TUNNEL, EDGE, GROUP = "demo.tunnels.localhost", "shop.example.com", "bkdtg_shop"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with running(tmp_path_factory.mktemp("edge")) as table:
        yield table


@pytest.fixture(scope="module")
def visitors(table: Table) -> Iterator[list[Header | None]]:
    with gateway(table) as gateway_visitors:
        yield gateway_visitors


def serve_group(table: Table, *tunnels: str) -> None:
    """Serve an edge whose route has a tunnel group."""
    table.records.backends[GROUP] = worlds.group(GROUP)
    table.records.tunnels[GROUP] = [worlds.tunnel(id, gateway=GATEWAY) for id in tunnels]
    plan = table.plan(EDGE, "")
    assert plan.edge
    route = worlds.route("/", GROUP)
    target = RouteTarget(route, ((GROUP, 1),), online=((GROUP, 1),))
    table.serve(replace(plan, edge=replace(plan.edge, targets=(target,))))
    if table.requests[EDGE]:
        assert table.send(table.names[EDGE]) == ""


def test_a_tunnel_gets_true_headers_and_no_internal_ones(table: Table, visitors: list[Header | None]) -> None:
    table.serve(table.tunnel(TUNNEL))
    status, body = table.visit(TUNNEL, host="127.0.0.1", path="/")
    assert status == 421
    with table.connect(TUNNEL, source="127.0.0.5") as connection:
        status, body = ask(connection, TUNNEL, "/", "x-forwarded-for: 192.0.2.9", "x-envoy-scope: other")
    id, *head = body.split("\n")
    headers = dict(line.strip().lower().split(": ", 1) for line in head[1:] if ": " in line)
    assert (status, id) == (200, "tn_demo")
    assert (headers["x-forwarded-for"], headers["x-forwarded-host"]) == ("127.0.0.5", TUNNEL)
    assert "x-envoy-scope" not in headers


def test_a_group_of_tunnels_answers_for_an_edge(table: Table, visitors: list[Header | None]) -> None:
    serve_group(table, "tn_1", "tn_2")
    answers = {table.visit(EDGE)[1].split("\n")[0] for _ in range(4)}
    assert answers == {"tn_1", "tn_2"}
    serve_group(table)
    assert table.visit(EDGE) == (503, pages.NO_TUNNELS)
    serve_group(table, "tn_3")
    assert table.visit(EDGE)[1].split("\n")[0] == "tn_3"


def test_a_tunnel_that_does_not_answer_has_another_page_than_an_edge(table: Table) -> None:
    name = "silent.tunnels.localhost"
    table.records.gateways["gw-2"] = Gateway("gw-2", "127.0.0.1", free_port())
    plan = table.tunnel(name)
    assert plan.site
    site_elsewhere = replace(plan.site, tunnel=replace(plan.site.tunnel, gateway="gw-2"))
    table.serve(replace(plan, site=site_elsewhere))
    assert table.visit(name) == (502, pages.NO_ANSWER)


def test_the_access_log_names_the_tunnel_or_the_edge(table: Table, visitors: list[Header | None]) -> None:
    table.serve(table.tunnel(TUNNEL))
    serve_group(table, "tn_1")
    assert [table.visit(name, path="/logged")[0] for name in (TUNNEL, EDGE)] == [200, 200]
    words = ("account", "edge", "route", "tunnel")

    def read_lines() -> dict[str, tuple[str | None, ...]]:
        lines = [line for line in table.access_log() if line["path"] == "/logged"]
        return {line["host"]: tuple(line[word] for word in words) for line in lines}

    until(lambda: len(read_lines()) == 2)
    assert read_lines() == {
        TUNNEL: ("acct_a", None, None, "tn_demo"),
        EDGE: ("acct_a", f"edghts_{EDGE}", "edghtsrt_1", "tn_1"),
    }


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_a_tunnel_that_reads_the_proxy_protocol_gets_each_visitors_address(
    table: Table, visitors: list[Header | None], protocol: str
) -> None:
    name = f"reading-{protocol[:2]}.tunnels.localhost"
    table.serve(table.tunnel(name, proxy_protocol=True))
    table.visit(name)
    visitors.clear()
    sources = ["127.0.0.2", "127.0.0.3", "127.0.0.2"]
    assert [table.curl(name, protocol, source) for source in sources] == ["200"] * 3
    assert [visitor.source[0] for visitor in visitors if visitor and visitor.source] == sources


def test_every_host_is_redirected_to_https_and_challenges_need_control(table: Table) -> None:
    redirects = [_visit_http(table, "any.example.com", path) for path in ("/a?b", "/.well-known/acme-challenge/x")]
    assert redirects == [(308, f"https://any.example.com:{table.settings.edge_port}/a?b"), (503, None)]


def _visit_http(table: Table, host: str, path: str) -> tuple[int, str | None]:
    connection = HTTPConnection("127.0.0.1", table.settings.http_port)
    connection.request("GET", path, headers={"host": host})
    answer = connection.getresponse()
    return answer.status, answer.headers["location"]
