"""What edge hosts report about an edge, stored by host."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.base.kinds import EDGE
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report, Reports, State
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items

EARLY = "2026-01-01T00:00:00Z"
HOSTPORT = "a.example.com:443"
ACCEPTED, REFUSED = (
    Report(7, EARLY, "one"),
    Report(7, "2036-01-01T00:00:00Z", "two", {HOSTPORT: "no", "cert_1": "weak"}),
)


@pytest.mark.parametrize(
    ("parts", "combined"),
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
def test_the_state_of_a_whole(parts: list[State], combined: State) -> None:
    assert (edge_status.combine_states(parts), edge_status.combine_states(parts[::-1])) == (combined, combined)


def test_only_reports_of_live_hosts_are_read() -> None:
    for report in (ACCEPTED, REFUSED, Report(7, EARLY, "never announced")):
        edge_status.write("acct_1", "edghts_1", report)
    edge_status.announce("one", lease=60)
    edge_status.announce("two", ["*.a.example"], lease=60)
    both = Reports(2, {"one": ACCEPTED, "two": REFUSED}, None, frozenset({"*.a.example"}))
    assert edge_status.read_reports("acct_1", "edghts_1") == both
    assert sorted(edge_status.list_hosts()) == ["one", "two"]

    edge_status.announce("two", lease=0)
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1, {"one": ACCEPTED})
    edge_status.remove("acct_1", "edghts_1", "one")
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1)


def test_a_trial_stays_when_its_host_ends() -> None:
    edge_status.write_trial("acct_1", "edghts_1", REFUSED)
    edge_status.announce("one", lease=60)
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1, {}, REFUSED)

    edge_status.write_trial("acct_1", "edghts_1", replace(REFUSED, at=EARLY))  # no host has repeated it
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1)
    edge_status.write_trial("acct_1", "edghts_1", ACCEPTED)
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1, {}, ACCEPTED)

    edge_status.remove_trial("acct_1", "edghts_1")
    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1)


def test_another_account_and_another_edge_have_their_own() -> None:
    edge_status.announce("one", lease=60)
    edge_status.write("acct_1", "edghts_1", ACCEPTED)
    edge_status.write_trial("acct_1", "edghts_1", REFUSED)

    assert edge_status.read_reports("acct_2", "edghts_1") == Reports(1)
    assert edge_status.read_reports("acct_1", "edghts_2") == Reports(1)
    assert edge_status.read_statuses("one") == {("acct_1", "edghts_1"): ACCEPTED}


def test_a_report_of_an_earlier_version_has_the_refused_parts() -> None:
    part = {"state": "live", "since": EARLY, "error": ""}
    hostport = {"hostport": HOSTPORT, "certificate_id": "", "not_after": "", **part, "state": "refused", "error": "no"}
    body = {"state": "partly", "revision": 7, "at": EARLY, "hostports": [hostport], "backends": []}
    record = {"scope": items.scope(EDGE, "/hosts/one/statuses"), "id": "acct_1 edghts_1", "revision": 1}
    dynamodb.do(Write.put({**record, "body": {**body, "routes": [{"id": "edghtsrt_1", **part}]}}))

    assert edge_status.read_statuses("one") == {("acct_1", "edghts_1"): Report(7, EARLY, "one", {HOSTPORT: "no"})}


@pytest.mark.parametrize("body", [None, {"at": EARLY, "host": "one"}, {"revision": "7", "at": EARLY, "host": "one"}])
def test_a_malformed_report_or_trial_is_left_out(body: Any) -> None:
    edge_status.announce("one", lease=60)
    hosts, trials = items.scope(EDGE, "/hosts/one/statuses"), items.scope("acct_1", "/edge_trials")
    for scope, id in ((hosts, "acct_1 edghts_1"), (trials, "edghts_1")):
        dynamodb.do(Write.put({"scope": scope, "id": id, "revision": 1, "body": body}))

    assert edge_status.read_reports("acct_1", "edghts_1") == Reports(1)


def test_a_host_that_has_gone_leaves_nothing_behind() -> None:
    for host, lease in (("one", 60), ("two", -100), ("three", -500)):
        edge_status.announce(host, lease=lease)
        edge_status.write("acct_1", "edghts_1", Report(7, EARLY, host))

    assert edge_status.remove_expired_hosts(grace=300) == ["three"]
    assert [len(edge_status.read_statuses(host)) for host in ("one", "two", "three")] == [1, 1, 0]
    edge_status.remove_host("one")
    assert edge_status.read_statuses("one") == {}
    assert edge_status.remove_expired_hosts(grace=0) == ["two"]
    assert edge_status.remove_expired_hosts(grace=0) == []


def test_the_largest_edge_fits_one_record() -> None:
    names = [
        *(f"{number}.{'a' * 245}:443" for number in range(100)),
        *(f"edghtsrt_{number:027}" for number in range(100)),
    ]
    edge_status.write("acct_1", "edghts_1", Report(7, EARLY, "one", dict.fromkeys(names, "ä" * 1000)))

    status = edge_status.read_statuses("one")["acct_1", "edghts_1"]

    assert status.errors == dict.fromkeys(names, "ä" * edge_status.MAX_ERROR)
