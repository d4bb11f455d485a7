"""A name becomes special and normal again while it is visited, on open and on new connections."""

import pytest

from chalicelib.model.edges.modules.tls_termination import TlsTerminationModule
from chalicelib.model.edges.served import Modules
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.names import Name
from tests.live.edge.ondemand.tables import ask
from tests.live.edge.running import until

pytestmark = needs_envoy


def test_mutual_tls_closes_open_connections_and_strangers_at_once(name: Name, mutual: Modules) -> None:
    with (
        name.connect(is_stranger=True) as before,
        name.visiting() as statuses,
        name.visiting(is_stranger=True) as strangers,
    ):
        assert ask(before, name.host)[0] == 200
        name.change(mutual)
        until(lambda: strangers[""] > 0)
        count_before = strangers["200"]
        assert ask(before, name.host)[0] == 421
        until(lambda: strangers[""] > 20)
        assert strangers["200"] == count_before
    assert statuses.keys() <= {"200", "421"}
    assert strangers.keys() <= {"200", "421", ""}


def test_without_mutual_tls_visitors_find_the_name_all_the_time(name: Name, mutual: Modules) -> None:
    name.change(mutual)
    until(lambda: not name.visit(is_stranger=True))
    with name.connect() as before, name.visiting() as statuses:
        assert ask(before, name.host)[0] == 200
        name.change(enabled())
        until(lambda: name.visit(is_stranger=True) == "200")
        name.edge.settle()
        assert ask(before, name.host)[0] == 421
    assert statuses.keys() <= {"200", "421"}
    assert statuses["421"] <= 1  # on a connection from before the change


def test_a_special_name_that_the_list_lacks_is_added_by_its_first_visitor(name: Name, mutual: Modules) -> None:
    name.edge.settle()
    name.change(mutual, is_listed=False)  # as an earlier version of the API did
    until(lambda: name.visit() == "200" and not name.visit(is_stranger=True))
    with name.visiting() as statuses, name.visiting(is_stranger=True) as strangers:
        until(lambda: min(statuses.total(), strangers.total()) > 20)
    assert ({*statuses}, {*strangers}) == ({"200"}, {""})


@pytest.mark.parametrize("version", ["1.1", "1.3"])
def test_another_tls_version_moves_a_name_and_back(name: Name, version: str) -> None:
    with name.connect() as before, name.visiting() as visits:
        assert ask(before, name.host)[0] == 200
        name.change(enabled(tls_termination=TlsTerminationModule(min_version=version)))
        until(lambda: ask(before, name.host)[0] == 421)
        if version == "1.3":
            until(lambda: not name.visit(version="TLSv1_2"))
        name.edge.settle()
        name.change(enabled())
        name.edge.settle()
        until(lambda: name.visit(version="TLSv1_2") == "200")
    assert visits.keys() <= {"200", "421"}
