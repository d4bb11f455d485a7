"""Limits of visitors hold over all names together, and each visitor has its own."""

from pathlib import Path

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.tables import ask, running

pytestmark = needs_envoy
NAMES = ["one.example.com", "two.example.com"]


def test_a_visitor_above_the_rate_is_refused_at_every_name_and_another_is_not(tmp_path: Path) -> None:
    with running(tmp_path, max_requests_per_visitor=2) as table:
        for name in NAMES:
            table.answer(name, name)
        with table.connect(NAMES[0], source="127.0.0.66") as first:
            statuses = [ask(first, NAMES[0])[0] for _ in range(30)]
        assert statuses[:10] == [200] * 10
        assert 429 in statuses
        with table.connect(NAMES[1], source="127.0.0.66") as second:
            assert 429 in {ask(second, NAMES[1])[0] for _ in range(10)}
        assert {table.visit(NAMES[1], source="127.0.0.7")[0] for _ in range(8)} == {200}


def test_connections_of_a_normal_name_have_no_limit_of_their_own(tmp_path: Path) -> None:
    with running(tmp_path, max_connections_per_edge=2) as table:
        table.answer(NAMES[0], "one")
        connections = [table.connect(NAMES[0]) for _ in range(5)]
        assert [ask(connection, NAMES[0]) for connection in connections] == [(200, "one")] * 5
        for connection in connections:
            connection.close()
