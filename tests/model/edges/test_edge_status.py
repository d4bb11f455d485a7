"""What edge hosts report about an edge, stored by host."""

from dataclasses import replace

import pytest

from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import (
    BackendStatus,
    EdgeStatus,
    HostportStatus,
    Reports,
    RouteStatus,
    State,
    Trial,
)

EARLY = "2026-01-01T00:00:00Z"
HOSTPORT = HostportStatus("a.example.com:443", "live", EARLY, "", "cert_1", "2027-01-01T00:00:00Z")
ROUTE = RouteStatus("edghtsrt_1", "live", EARLY)
LIVE = EdgeStatus("live", 7, EARLY, (HOSTPORT,), (ROUTE,), (BackendStatus("bkdtg_1", 2),))


def in_state(state: State) -> EdgeStatus:
    hostport, route = replace(HOSTPORT, state=state), replace(ROUTE, state=state)
    return replace(LIVE, state=state, hostports=(hostport,), routes=(route,))


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["live", "live"], "live"),
        (["live", "waiting"], "partly"),
        (["live", "refused"], "partly"),
        (["partly"], "partly"),
        (["partly", "refused"], "partly"),
        (["refused", "unproved"], "refused"),
        (["waiting", "refused"], "refused"),
        (["waiting", "unproved"], "unproved"),
        (["waiting", "waiting"], "waiting"),
    ],
)
def test_the_state_of_a_whole(parts: list[State], whole: State) -> None:
    assert (edge_status.combine_states(parts), edge_status.combine_states(parts[::-1])) == (whole, whole)


def test_only_statuses_of_live_hosts_are_read() -> None:
    refused = in_state("refused")
    for host, status in (("one", LIVE), ("two", refused), ("never announced", refused)):
        edge_status.write("acct_1", "edghts_1", host, status)
    edge_status.announce("one", lease=60)
    edge_status.announce("two", ["*.a.example"], lease=60)
    both = Reports(2, {"one": LIVE, "two": refused}, None, frozenset({"*.a.example"}))
    assert edge_status.read_reports("acct_1", "edghts_1") == both
    assert sorted(edge_status.list_hosts()) == ["one", "two"]

    edge_status.announce("two", lease=0)
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1, {"one": LIVE})
    edge_status.remove("acct_1", "edghts_1", "one")
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1)


def test_a_trial_stays_when_its_host_ends() -> None:
    trial = Trial(7, EARLY, "one", {"a.example.com:443": "no"})
    edge_status.write_trial("acct_1", "edghts_1", trial)
    edge_status.announce("two", lease=60)
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1, {}, trial)

    edge_status.remove_trial("acct_1", "edghts_1")
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1)


def test_another_account_and_another_edge_have_their_own() -> None:
    edge_status.announce("one", lease=60)
    edge_status.write("acct_1", "edghts_1", "one", LIVE)
    edge_status.write_trial("acct_1", "edghts_1", Trial(7, EARLY, "one"))

    assert edge_status.read_reports("acct_2", "edghts_1") == Reports(1)
    assert edge_status.read_reports("acct_1", "edghts_2") == Reports(1)
    assert edge_status.read_statuses("one") == {("acct_1", "edghts_1"): LIVE}


def test_a_host_that_has_gone_leaves_nothing_behind() -> None:
    for host, lease in (("one", 60), ("two", -100), ("three", -500)):
        edge_status.announce(host, lease=lease)
        edge_status.write("acct_1", "edghts_1", host, LIVE)

    assert edge_status.remove_expired_hosts(grace=300) == ["three"]
    assert [len(edge_status.read_statuses(host)) for host in ("one", "two", "three")] == [1, 1, 0]
    edge_status.remove_host("one")
    assert edge_status.read_statuses("one") == {}
    assert edge_status.remove_expired_hosts(grace=0) == ["two"]
    assert edge_status.remove_expired_hosts(grace=0) == []


def test_the_largest_edge_fits_one_record() -> None:
    error = "ä" * 1000
    hostports = tuple(HostportStatus(f"{place}.{'a' * 245}:443", "refused", EARLY, error) for place in range(100))
    routes = tuple(RouteStatus(f"edghtsrt_{place:027}", "refused", EARLY, error) for place in range(100))
    backends = tuple(BackendStatus(f"bkdwd_{place:027}", 1000) for place in range(1000))
    edge_status.write("acct_1", "edghts_1", "one", EdgeStatus("refused", 7, EARLY, hostports, routes, backends))

    found = edge_status.read_statuses("one")["acct_1", "edghts_1"]

    errors = {*(it.error for it in found.hostports), *(it.error for it in found.routes)}
    assert errors == {"ä" * edge_status.MAX_ERROR}
