"""What visitors can make the access log of an edge hold."""

import json
from collections import Counter
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, running, until


def _ask(edge: Edge, name: str, path: str, *, times: int = 1) -> set[int]:
    """Return the statuses of requests for a name on one connection."""
    request = f"GET /{path} HTTP/1.1\r\nhost: {name}.tunnels.localhost\r\n\r\n".encode("latin-1")
    statuses = set[int]()
    with edge.connect(name) as connection:
        for _ in range(times):
            connection.sendall(request)
            answer = HTTPResponse(connection)
            answer.begin()
            answer.read()
            statuses.add(answer.status)
    return statuses


def _lines(edge: Edge, name: str) -> list[dict[str, Any]]:
    return [line for line in edge.access_log() if line["host"] == f"{name}.tunnels.localhost"]


@needs_envoy
def test_a_line_is_at_most_four_kib_and_tells_how_long_all_was(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_A"), "-R", f"long:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("long") == "200")

    for letter in '"\\<\x80\xffa':
        _ask(edge, "long", letter * 55_000)

    until(lambda: any("aaa" in line["path"] for line in _lines(edge, "long")))
    (cut,) = (line for line in _lines(edge, "long") if "aaa" in line["path"])
    assert (cut["path"], cut["header_bytes"] > 55_000) == ("/" + "a" * 511, True)
    assert max(map(len, (edge.settings.directory / "access.log").read_bytes().splitlines())) < 4096


@needs_envoy
def test_a_404_of_a_tunnel_is_logged_each_time_and_of_an_unknown_name_one_in_ten(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_requests_per_visitor=100_000) as edge:
        edge.ssh(edge.key("acct_A"), "-R", f"found:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("found") == "200")

        for _ in range(20):
            assert _ask(edge, "found", "missing") == {404}
        assert _ask(edge, "unknown", "a" * 5000, times=2000) == {404}

        until(lambda: sum(line["status"] == 404 for line in _lines(edge, "found")) == 20)
        until(lambda: len(_lines(edge, "unknown")) > 120)
        assert len(_lines(edge, "unknown")) < 280
        assert sum(len(json.dumps(line)) for line in _lines(edge, "unknown")) < 2_000_000


@needs_envoy
def test_of_requests_that_are_held_back_one_in_ten_has_a_line(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_requests_per_visitor=20) as edge:
        edge.ssh(edge.key("acct_A"), "-R", f"asked:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("asked") == "200")

        assert _ask(edge, "asked", "missing", times=1000) == {404, 429}
        until(lambda: _statuses(edge, "asked")[404] >= 80 and _statuses(edge, "asked")[429] > 40)
        assert _statuses(edge, "asked")[429] < 200
        edge.store.block("127.0.0.1/32")
        until(lambda: edge.status("asked") == "403", within=5)
        assert _ask(edge, "asked", "missing", times=500) == {403}
        until(lambda: _statuses(edge, "asked")[403] >= 10)
        assert _statuses(edge, "asked")[403] < 120


def _statuses(edge: Edge, name: str) -> Counter[int]:
    return Counter(line["status"] for line in _lines(edge, name))
