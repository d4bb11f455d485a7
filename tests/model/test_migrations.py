"""Migrations of records that 2.0.0 and d3f2e57 wrote: the API shows the same before, between and after them."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.names import base_names
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.records import table
from chalicelib.storage.records.unique_keys import Taken
from tests.old_records import read_answers, records, revision, store_records
from tests.transports import Client
from tests.tunnels import open_agent_tunnel

NOTHING_LEFT = "to be rewritten: none.\n0 rewritten.\n"


@pytest.mark.parametrize("commit", ["44e6111", "d3f2e57"])
def test_records_of_each_format_are_shown_alike_and_migrated_once(
    commit: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client, answers = store_records(commit)
    assert read_answers(client, answers) == answers
    for number in ("", "2", "3", "2"):
        monkeypatch.setenv("RECORD_FORMAT", number)
        operator.main(["migrate", "--apply"])
        assert read_answers(client, answers) == answers
        capsys.readouterr()
        operator.main(["migrate", "--apply"])
        assert capsys.readouterr().out.endswith(NOTHING_LEFT)


def test_records_keep_their_format_until_one_is_selected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store_records("d3f2e57")
    operator.main(["migrate", "--apply"])
    assert "selected format" not in capsys.readouterr().out
    monkeypatch.setenv("RECORD_FORMAT", "3")
    operator.main(["migrate"])
    assert "to be rewritten: none." in capsys.readouterr().out
    monkeypatch.setenv("RECORDS_EDITION", "2")  # the name before 3.0.0, if the new one is not set
    monkeypatch.delenv("RECORD_FORMAT")
    operator.main(["migrate"])
    output = capsys.readouterr()
    assert "1 of the kind HTTPS edge route (place in the selected record format)" in output.out
    assert output.out.endswith("Nothing was changed: run the command with --apply to migrate these records.\n")
    assert output.err == "Reading the table …\n"


def _former(record: dict[str, Any], account: str) -> dict[str, Any]:
    """Return a record with hostports that are held between all accounts, and lead nowhere."""
    if record["scope"]["S"].startswith("hostports#"):
        value = record["scope"]["S"].replace(f"{account}/", "")
        key = {name: record[name] for name in ("scope", "id")}
        aws.client("dynamodb").delete_item(TableName="tunnel-edge", Key=key)
        return {**record, "scope": {"S": value}, "body": {"M": {}}}
    claims = [
        [part["S"].replace(f"{account}/", "") for part in claim["L"]] for claim in record.get("claims", {}).get("L", ())
    ]
    return {**record, "claims": dynamodb.encode_value(claims)} if claims else record


def _age_edge(edge: dict[str, Any], account: str) -> None:
    """Make of an edge, and of its keys, what 2.0.0 would have written."""
    for record in records():
        if record["scope"]["S"].startswith(("tunnel_name#", f"{account}#/names")):
            key = {name: record[name] for name in ("scope", "id")}
            aws.client("dynamodb").delete_item(TableName="tunnel-edge", Key=key)
        elif record["id"]["S"] == edge["id"] and "claims" in record:
            claims = [claim for claim in record["claims"]["L"] if claim["L"][0]["S"] == "hostports"]
            record = _former({**record, "claims": {"L": claims}}, account)
            aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)
        elif record["scope"]["S"].startswith(f"hostports#{account}/"):
            aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=_former(record, account))


def test_the_oldest_edge_gets_a_name_before_younger_ones_and_tunnels(
    admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TUNNEL_DOMAIN", "tunnels.example")
    base_names.forget_settings()
    oldest = admin.create("/edges/https", {"hostports": ["a.team.tunnels.example:443", "app.example.com:443"]})
    _age_edge(oldest, admin.account)
    younger = stranger.create("/edges/https", {"hostports": ["b.team.tunnels.example:443"]})
    _age_edge(younger, stranger.account)
    tunnel = open_agent_tunnel(stranger.account, name="team.tunnels.example")
    operator.main(["migrate", "--apply"])
    output = capsys.readouterr().out
    assert (
        f"The tunnel {tunnel} was ended, because the edge {oldest['id']} owns its name team.tunnels.example.\n"
        in output
    )
    loses = (
        f"The edge {younger['id']} loses the name team.tunnels.example, which another account owns: change the "
        "hostports of the edge.\n"
    )
    assert loses in output
    assert stranger.get(f"/tunnels/{tunnel}").status == 404
    assert table.look_up("hostports", "app.example.com:443") is None
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, name="team.tunnels.example")
    stranger.patch(f"/edges/https/{younger['id']}", {"hostports": ["b.other.tunnels.example:443"]})
    operator.main(["migrate", "--apply"])
    assert capsys.readouterr().out.endswith("to be rewritten: none.\n0 rewritten.\n")
    base_names.forget_settings()


def test_every_change_raises_the_revision_of_the_record_and_a_routes_that_of_its_edge(admin: Client) -> None:
    edge = admin.create("/edges/https", {})
    address = f"/edges/https/{edge['id']}"
    assert revision(edge["id"]) == 1
    admin.patch(address, {"description": "new"})
    admin.put(f"{address}/tls_termination", {})
    assert revision(edge["id"]) == 3
    route = admin.create(f"{address}/routes", {"match_type": "exact_path", "match": "/"})
    assert (revision(edge["id"]), revision(route["id"])) == (4, 1)
    admin.patch(f"{address}/routes/{route['id']}", {"description": "new"})
    admin.put(f"{address}/routes/{route['id']}/user_agent_filter", {})
    assert (revision(edge["id"]), revision(route["id"])) == (6, 3)
    admin.delete(f"{address}/routes/{route['id']}/user_agent_filter")
    assert (revision(edge["id"]), revision(route["id"])) == (7, 4)
    admin.delete(f"{address}/routes/{route['id']}")
    assert revision(edge["id"]) == 8


def test_user_agent_filters_that_the_edge_does_not_serve_are_listed_with_their_owners(
    admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    edge = admin.create("/edges/https", {})
    deny = {"deny": ["bot"]}
    routes = [
        admin.create(
            f"/edges/https/{edge['id']}/routes",
            {"match_type": "exact_path", "match": f"/{index}", "user_agent_filter": {**deny, "enabled": index < 2}},
        )["id"]
        for index in range(3)
    ]
    for record in records():
        if any(record["id"]["S"].endswith(route) for route in (routes[0], routes[2])):
            record["parts"]["M"]["user_agent_filter"]["M"]["deny"] = {
                "L": [{"S": f"[ab]*a[ab]{{300}}{sign}"} for sign in "XYZ"]
            }
            aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)
    operator.main(["migrate"])
    first, *lines = capsys.readouterr().out.splitlines()
    account = admin.get("/me").json["account"]
    assert first == (
        f"The user agent filter of {routes[0]}, a route of {edge['id']} of {account}, takes 959 instructions of RE2 for"
        " a byte. The edge closes the route until its owner changes the filter: at most 300 are served."
    )
    assert [line for line in lines if "filter" in line] == []
