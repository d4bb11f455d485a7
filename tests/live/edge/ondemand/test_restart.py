"""A new control serves what Envoy holds, also special names, and removes what ended meanwhile."""

import time

from chalicelib.model.base.kinds import EDGE
from chalicelib.model.edges.served import Modules
from tests.edge import served_records
from tests.edge.edge_table import fail
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.names import ACCOUNT, Name
from tests.live.edge.running import until

pytestmark = needs_envoy


def test_a_loaded_name_and_its_connections_go_on(name: Name) -> None:
    name.edge.settle()
    with name.visiting() as visits:
        until(lambda: visits["200"] > 5)
        name.edge.restart_control()
        name.edge.settle()
        until(lambda: visits["200"] > 50)
    assert {*visits} == {"200"}


def test_a_special_name_goes_on(name: Name, mutual: Modules) -> None:
    name.change(mutual)
    until(lambda: name.visit() == "200" and not name.visit(is_stranger=True))
    name.edge.store.before = _delay_listing  # Envoy is connected again before control knows the special names
    with name.visiting() as statuses, name.visiting(is_stranger=True) as strangers:
        name.edge.restart_control()
        name.edge.settle()
        until(lambda: statuses["200"] > 50)
    name.edge.store.before = lambda *_: None
    assert ({*statuses}, {*strangers}) == ({"200"}, {""})


def _delay_listing(_: str, body: str) -> None:
    if f"{EDGE}#/special/0" in body:
        time.sleep(1)


def test_a_name_that_ended_meanwhile_is_withdrawn(name: Name) -> None:
    name.edge.settle()
    name.edge.stop_control()
    name.edge.store.forget(name.record)
    served_records.clear_log()
    name.edge.start_control()
    until(lambda: name.visit() == "404")


def _fail_for_account(_: str, body: str) -> None:
    if ACCOUNT in body:
        fail()


def test_a_special_name_that_a_new_control_cannot_read_stays_in_service(name: Name, mutual: Modules) -> None:
    name.change(mutual)
    until(lambda: name.visit() == "200" and not name.visit(is_stranger=True))
    store = name.edge.store
    store.before = _fail_for_account
    with name.visiting() as statuses, name.visiting(is_stranger=True) as strangers:
        name.edge.restart_control()
        until(lambda: name.edge.control.discovery.catalog.has_all_listeners, within=30)
        count_before = statuses["200"]
        until(lambda: statuses["200"] > count_before + 50)
        store.before = lambda *_: None
        name.edge.settle()
    assert ({*statuses}, {*strangers}) == ({"200"}, {""})
