"""Records of the first edition: served before they are migrated and after, migrated once, by a work that can stop."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib.model import migrations
from chalicelib.model.edges import edges
from chalicelib.model.names import base_names
from chalicelib.model.ssh.authorities import SshAuthority
from chalicelib.operator import migrate
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.records import table
from chalicelib.storage.records.unique_keys import Taken
from tests.samples import public_key
from tests.transports import Client
from tests.tunnels import opened


def records() -> list[dict[str, Any]]:
    return list(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"])


def of_the_first_edition() -> list[dict[str, Any]]:
    """Return the records without the lists of revocations, which are removed."""
    lists = [record for record in records() if record["scope"]["S"].startswith("krl#")]
    for record in lists:
        key = {name: record[name] for name in ("scope", "id")}
        aws.client("dynamodb").delete_item(TableName="tunnel-edge", Key=key)
    return records()


def age(record: dict[str, Any]) -> None:
    """Make of a record what the first edition would have written."""
    first = {name: value for name, value in record.items() if name not in ("schema", "revision")}
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=first)


@pytest.fixture
def edge(admin: Client) -> Any:
    """Return an edge with a route and modules; it and all other records as of the first edition."""
    edge = admin.create("/edges/https", {"hostports": ["app.example.com:443"], "tls_termination": {}})
    admin.create(f"/edges/https/{edge['id']}/routes", {"match_type": "exact_path", "match": "/", "oauth": None})
    for record in records():
        age(record)
    return admin.get(f"/edges/https/{edge['id']}").json


def test_every_record_is_rewritten_once(admin: Client, edge: Any, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(records())
    operator.main(["migrate"])
    said = capsys.readouterr().out
    assert said.startswith(f"{count} records; to be rewritten: ")
    assert said.endswith("Nothing was changed: --apply rewrites them.\n")
    assert all("schema" not in record for record in records())
    operator.main(["migrate", "--apply"])
    assert f"{count} rewritten." in capsys.readouterr().out
    assert {(record["schema"]["N"], record["revision"]["N"]) for record in records()} == {("2", "1")}
    operator.main(["migrate", "--apply"])
    assert capsys.readouterr().out == f"{count} records; to be rewritten: none.\n0 rewritten.\n"
    assert admin.get(f"/edges/https/{edge['id']}").json == edge


def test_the_progress_of_a_migration_goes_to_the_error_channel(edge: Any, capsys: pytest.CaptureFixture[str]) -> None:
    operator.main(["migrate"])
    assert capsys.readouterr().err == "Reading the table …\n"
    count, said = len(records()), list[str]()
    assert [*migrate.run(applies=True, report=said.append, pause=0)][-1] == f"{count} rewritten."
    assert said[1].startswith("1 records read, ")
    assert [line.partition(" records read, ")[0] for line in said] == [said[0], *map(str, range(1, count + 1))]
    assert said[-1].endswith(f" {count - 1} rewritten …")


def test_a_work_that_was_broken_off_is_gone_on_with_and_nothing_is_written_twice(admin: Client, edge: Any) -> None:
    forms, old = migrate.forms(), [*migrations.records()]
    assert all(migrations.apply(record, forms) for record in old[::2])
    assert [migrations.apply(record, forms) for record in old] == [place % 2 == 1 for place in range(len(old))]
    assert not any(migrations.apply(record, forms) for record in old)
    assert {(record["schema"]["N"], record["revision"]["N"]) for record in records()} == {("2", "1")}
    assert admin.get(f"/edges/https/{edge['id']}").json == edge


def test_a_record_of_the_first_edition_is_changed_as_any_other(admin: Client, edge: Any) -> None:
    address = f"/edges/https/{edge['id']}"
    changed = admin.patch(address, {"description": "new", "hostports": ["other.example.com:443"]}).json
    assert changed == {**edge, "description": "new", "hostports": ["other.example.com:443"]}
    route = f"{address}/routes/{edge['routes'][0]['id']}"
    assert admin.put(f"{route}/user_agent_filter", {}).status == 200
    assert admin.patch(route, {"match": "/new"}).json["match"] == "/new"
    assert admin.delete(f"{route}/user_agent_filter").status == 204
    assert admin.delete(address).status == 204
    assert admin.get(route).status == 404


def _former(record: dict[str, Any], account: str) -> dict[str, Any]:
    """Return a record with hostports that are held between all accounts, and lead nowhere."""
    if record["scope"]["S"].startswith("hostports#"):
        value = record["scope"]["S"].replace(f"{account}/", "")
        key = {name: record[name] for name in ("scope", "id")}
        aws.client("dynamodb").delete_item(TableName="tunnel-edge", Key=key)
        return {**record, "scope": {"S": value}, "body": {"M": {}}}
    claims = [
        [part["S"].replace(f"{account}/", "") for part in it["L"]] for it in record.get("claims", {}).get("L", ())
    ]
    return {**record, "claims": dynamodb.attribute(claims)} if claims else record


def test_hostports_and_authorities_of_the_first_edition_lead_to_their_accounts(admin: Client) -> None:
    edge = admin.create("/edges/tls", {"hostports": ["a.example.com:443", "b.example.com:443"]})
    authority = admin.create("/ssh_certificate_authorities", {})
    (key,) = SshAuthority.of(authority).unique_keys(admin.account, authority["id"])
    aws.client("dynamodb").delete_item(
        TableName="tunnel-edge", Key=dynamodb.attributes({"scope": key.scope, "id": "claim"})
    )
    for record in of_the_first_edition():
        first = {name: value for name, value in record.items() if name not in ("claims", "home")}
        kept = record if record["id"]["S"] != authority["id"] else first
        age(_former(kept, admin.account))
    operator.main(["migrate", "--apply"])
    assert edges.find_by_hostport(admin.account, "b.example.com:443") == edge["id"]
    assert table.look_up("hostports", "b.example.com:443") is None
    assert table.look_up(key.kind, key.value) == {"account": admin.account, "id": authority["id"]}
    assert admin.delete(f"/ssh_certificate_authorities/{authority['id']}").status == 204
    assert table.look_up(key.kind, key.value) is None


def _age_edge(edge: dict[str, Any], account: str) -> None:
    """Make of an edge, and of its keys, what the second edition would have written."""
    for record in records():
        if record["scope"]["S"].startswith(("tunnel_name#", f"{account}#/names")):
            key = {name: record[name] for name in ("scope", "id")}
            aws.client("dynamodb").delete_item(TableName="tunnel-edge", Key=key)
        elif record["id"]["S"] == edge["id"] and "claims" in record:
            kept = [it for it in record["claims"]["L"] if it["L"][0]["S"] == "hostports"]
            record = _former({**record, "claims": {"L": kept}}, account)
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
    tunnel = opened(stranger.account, name="team.tunnels.example")
    operator.main(["migrate", "--apply"])
    said = capsys.readouterr().out
    assert f"The tunnel {tunnel} was ended: the edge {oldest['id']} has team.tunnels.example.\n" in said
    loses = f"The edge {younger['id']} loses team.tunnels.example: another account has it. Change its hostports.\n"
    assert loses in said
    assert stranger.get(f"/tunnels/{tunnel}").status == 404
    assert table.look_up("hostports", "app.example.com:443") is None
    with pytest.raises(Taken):
        opened(stranger.account, name="team.tunnels.example")
    stranger.patch(f"/edges/https/{younger['id']}", {"hostports": ["b.other.tunnels.example:443"]})
    operator.main(["migrate", "--apply"])
    assert capsys.readouterr().out.endswith("to be rewritten: none.\n0 rewritten.\n")
    base_names.forget_settings()


@pytest.fixture
def authority(admin: Client) -> Any:
    """Return an SSH authority of the first edition, which made no lists of revocations, with a certificate."""
    authority = admin.create("/ssh_certificate_authorities", {})
    asked = {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}
    certificate = admin.create("/ssh_user_certificates", asked)
    for record in of_the_first_edition():
        age(record)
    return {**authority, "certificate": certificate["id"]}


def test_an_authority_of_the_first_edition_gets_its_list(
    admin: Client, nobody: Client, authority: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"/ssh_certificate_authorities/{authority['id']}"
    assert nobody.get(f"{address}/public_key").status == 404
    operator.main(["migrate", "--apply"])
    assert "0 changed meanwhile" not in capsys.readouterr().out
    assert nobody.get(f"{address}/public_key").text == f"{authority['public_key']}\n"
    assert nobody.get(f"{address}/krl").status == 200


def test_an_authority_of_the_first_edition_revokes_as_any_other(admin: Client, nobody: Client, authority: Any) -> None:
    address = f"/ssh_certificate_authorities/{authority['id']}"
    assert admin.get(f"{address}/revocations").json["revocations"] == []
    assert admin.delete(f"/ssh_user_certificates/{authority['certificate']}").status == 204
    assert len(admin.get(f"{address}/revocations").json["revocations"]) == 1
    before = nobody.get(f"{address}/krl")
    operator.main(["migrate", "--apply"])
    assert nobody.get(f"{address}/krl").text == before.text
    assert admin.delete(address).status == 204
    assert len(nobody.get(f"{address}/krl").text) == len(before.text)


def revision(id: str) -> int:
    return next(int(record["revision"]["N"]) for record in records() if record["id"]["S"].endswith(id))


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
            {"match_type": "exact_path", "match": f"/{place}", "user_agent_filter": {**deny, "enabled": place < 2}},
        )["id"]
        for place in range(3)
    ]
    for record in records():
        if any(record["id"]["S"].endswith(it) for it in (routes[0], routes[2])):
            record["parts"]["M"]["user_agent_filter"]["M"]["deny"] = {
                "L": [{"S": f"[ab]*a[ab]{{300}}{sign}"} for sign in "XYZ"]
            }
            aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)
    operator.main(["migrate"])
    first, *others = capsys.readouterr().out.splitlines()
    account = admin.get("/me").json["account"]
    assert first == (
        f"The user agent filter of {routes[0]}, a route of {edge['id']} of {account}, takes 959 instructions of RE2 for"
        " a byte. The edge closes the route until its owner changes the filter: at most 300 are served."
    )
    assert [line for line in others if "filter" in line] == []
