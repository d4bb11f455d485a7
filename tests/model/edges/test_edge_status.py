"""What edge hosts say of an edge: kept host by host, and told as one."""

from dataclasses import replace

import pytest

from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import BackendStatus, EdgeStatus, HostportStatus, RouteStatus, State

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
HOSTPORT = HostportStatus("a.example.com:443", "live", EARLY, "", "cert_1", "2027-01-01T00:00:00Z")
ROUTE = RouteStatus("edghtsrt_1", "live", EARLY)
LIVE = EdgeStatus("live", 7, EARLY, (HOSTPORT,), (ROUTE,), (BackendStatus("bkdtg_1", 2),))


def in_state(state: State) -> EdgeStatus:
    hostport, route = replace(HOSTPORT, state=state), replace(ROUTE, state=state)
    return replace(LIVE, state=state, hostports=(hostport,), routes=(route,))


@pytest.mark.parametrize(
    ("said", "silent", "told"),
    [
        (["live"], 0, "live"),
        (["live", "live"], 0, "live"),
        (["live"], 1, "partly"),
        (["live", "waiting"], 0, "partly"),
        (["live", "refused"], 0, "partly"),
        (["live", "unproved"], 0, "partly"),
        (["partly"], 0, "partly"),
        (["partly", "live"], 0, "partly"),
        (["partly", "refused"], 0, "partly"),
        (["refused"], 0, "refused"),
        (["refused"], 1, "refused"),
        (["refused", "unproved"], 0, "refused"),
        (["waiting", "refused"], 0, "refused"),
        (["unproved"], 1, "unproved"),
        (["waiting", "unproved"], 0, "unproved"),
        (["waiting", "waiting"], 0, "waiting"),
    ],
)
def test_the_edge_and_its_parts_are_live_where_every_living_host_says_so(
    said: list[State], silent: int, told: State
) -> None:
    found = edge_status.merge([in_state(state) for state in said], silent, 7)

    assert (found.state, found.hostports[0].state, found.routes[0].state) == (told, told, told)


@pytest.mark.parametrize("state", ["live", "partly", "refused", "unproved"])
def test_what_was_said_of_an_earlier_revision_says_that_the_edge_waits(state: State) -> None:
    assert edge_status.merge([in_state(state)], 0, 8) == replace(in_state(state), state="waiting")
    assert edge_status.merge([in_state(state), replace(in_state(state), revision=8)], 0, 8).state == "waiting"
    assert edge_status.merge([in_state(state), replace(in_state(state), revision=8)], 0, 8).revision == 7


def test_an_edge_of_which_nobody_says_anything_waits() -> None:
    assert edge_status.merge([], 0, 7) == EdgeStatus("waiting", 0, "")
    assert edge_status.merge([], 3, 7) == EdgeStatus("waiting", 0, "")


def test_a_part_that_one_host_does_not_name_waits_there() -> None:
    other = replace(LIVE, hostports=(replace(HOSTPORT, hostport="b.example.com:443"),), routes=())

    found = edge_status.merge([LIVE, other], 0, 7)

    assert [(it.hostport, it.state) for it in found.hostports] == [
        ("a.example.com:443", "partly"),
        ("b.example.com:443", "partly"),
    ]
    assert [(it.id, it.state) for it in found.routes] == [("edghtsrt_1", "partly")]


def test_times_are_the_latest_tunnels_the_fewest_and_the_certificate_the_one_that_ends_first() -> None:
    soon = replace(HOSTPORT, since=LATE, error="one", certificate_id="cert_2", not_after="2026-06-01T00:00:00Z")
    route = replace(ROUTE, since=LATE, error="two")
    backends = (BackendStatus("bkdtg_1", 1), BackendStatus("bkdtg_2", 5))

    found = edge_status.merge([LIVE, EdgeStatus("live", 7, LATE, (soon,), (route,), backends)], 0, 7)

    assert found == EdgeStatus("live", 7, LATE, (soon,), (route,), backends)


def test_without_a_certificate_none_is_told() -> None:
    bare = replace(HOSTPORT, state="refused", certificate_id="", not_after="")

    assert edge_status.merge([replace(LIVE, hostports=(bare,))], 0, 7).hostports == (bare,)


def test_only_what_living_hosts_say_counts() -> None:
    for host, status in (("one", LIVE), ("two", in_state("refused")), ("never announced", in_state("refused"))):
        edge_status.write("acct_1", "edghts_1", host, status)
    edge_status.announce("one", lease=60)
    edge_status.announce("two", lease=60)
    assert edge_status.read("acct_1", "edghts_1", 7) == (edge_status.merge([LIVE, in_state("refused")], 0, 7), 2)

    edge_status.announce("two", lease=0)
    assert edge_status.read("acct_1", "edghts_1", 7) == (LIVE, 1)
    edge_status.announce("two", lease=60)
    edge_status.remove("acct_1", "edghts_1", "two")
    assert edge_status.read("acct_1", "edghts_1", 7) == (edge_status.merge([LIVE], 1, 7), 1)
    edge_status.announce("one", lease=0)
    assert edge_status.read("acct_1", "edghts_1", 7) == (edge_status.NO_STATUS, 0)


def test_another_account_and_another_edge_have_their_own() -> None:
    edge_status.announce("one", lease=60)
    edge_status.write("acct_1", "edghts_1", "one", LIVE)

    assert edge_status.read("acct_2", "edghts_1", 7) == (edge_status.NO_STATUS, 0)
    assert edge_status.read("acct_1", "edghts_2", 7) == (edge_status.NO_STATUS, 0)
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
