"""Shards of events and certificates: no partition takes more than its units, nothing is left out or listed twice."""

import random
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import ids
from chalicelib.model.audit import partitions, reading, trail
from chalicelib.model.audit.trail import EventActor, Trail
from chalicelib.model.changes import Change
from chalicelib.operator import accounts, tunnels
from chalicelib.storage.client import queries
from chalicelib.storage.records import direct_writes, items, shards, table
from chalicelib.storage.records.items import Item
from tests.events import mark, page, put
from tests.queries import calls
from tests.samples import BODIES, public_key
from tests.storage.limited import UNITS, limited
from tests.transports import Client, key_in

CERTIFICATES = ("/ssh_user_certificates", "/ssh_host_certificates")


def written_scopes(scope: str) -> set[str]:
    """Return the scopes that begin so and have records."""
    return {record["scope"] for page in queries.scan() for record in page if record["scope"].startswith(scope)}


def newcomer(admin: Client, name: str) -> Client:
    """Return the admin of an account of its own: what is spread stays so for this process."""
    account, user, token = accounts.create_account(name, "ada")
    return replace(admin, account=account.id, user=user.id).with_token(token)


def test_a_thousand_changes_in_a_second_are_written_with_no_key_above_its_units(stranger: Client) -> None:
    account, by = ids.new("acct"), Trail(EventActor("api_key", ids.new("ak"), ids.new("usr"), "ada"))
    with limited() as (spent, turned_away):
        for _ in range(1000):
            id = ids.new("bkdwd")
            apart = Item(f"{account}#/backends/{id}", id, {"backends": {}})  # the resources' own is not the question
            Change(by).put(apart).commit()
    assert max(spent.values()) <= UNITS
    assert len(turned_away) == 1
    first, *others = partitions.scopes(account)
    assert spent[first] > UNITS - 10  # until it was hot
    assert sum(spent[scope] for scope in (first, *others)) == 2 * 1000
    assert partitions.is_busy(account)


@pytest.mark.parametrize("path", CERTIFICATES)
def test_a_thousand_certificates_of_an_account_in_a_second_leave_no_key_above_its_units(
    admin: Client, path: str
) -> None:
    client = newcomer(admin, f"issuer{path.replace('/', '-').replace('_', '-')}")
    asked = {"ssh_certificate_authority_id": client.create("/ssh_certificate_authorities", {})["id"]}
    made = client.create(path, {**asked, "public_key": public_key(), "principals": ["deploy"]})
    scope = items.scope(client.account, path)
    issued = table.read(scope, made["id"])
    assert issued is not None
    by, prefix = Trail(EventActor("api_key", ids.new("ak"), client.user, "ada")), issued.id.partition("_")[0]
    with limited() as (spent, turned_away):
        for _ in range(1000):
            Change(by).put(Item(scope, ids.new(prefix), issued.body, unseen=issued.unseen)).commit()
    assert max(spent.values()) <= UNITS
    for collection in (scope, partitions.first(client.account)):
        assert sum(spent[it] for it in (collection, *shards.further(collection).scopes)) == 2 * 1000
        assert spent[collection] > UNITS - 10  # until it was hot
    assert 1 <= len(turned_away) <= 2  # both at once, or one after the other


@pytest.mark.parametrize("path", CERTIFICATES)
def test_certificates_of_a_busy_account_are_listed_changed_and_deleted_as_others(
    admin: Client, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = newcomer(admin, f"busy{path.replace('/', '-').replace('_', '-')}")
    asked = {"ssh_certificate_authority_id": client.create("/ssh_certificate_authorities", {})["id"]}
    asked["public_key"] = public_key()
    made = [client.create(path, asked) for _ in range(4)]
    direct_writes.spread(scope := items.scope(client.account, path))
    made += [client.create(path, asked) for _ in range(10)]
    expected = sorted(made, key=lambda it: it["id"], reverse=True)
    assert len(written_scopes(scope)) > 2

    def listed(limit: int = 100) -> list[Any]:
        return list(client.all(path, path[1:], limit))

    assert [listed(limit) for limit in (3, 100)] == [expected] * 2
    assert client.get(f"{path}?owner_id={client.user}").json[path[1:]] == expected
    assert [client.get(f"{path}/{it['id']}").json for it in made] == made
    changed = [client.patch(f"{path}/{it['id']}", {"description": "new"}).json for it in expected]
    assert changed == [{**it, "description": "new"} for it in expected]
    assert [client.delete(f"{path}/{it['id']}").status for it in changed[::2]] == [204] * 7
    assert client.get(f"{path}/{changed[0]['id']}").status == 404
    left = changed[1::2]
    assert listed() == left
    for number in ("3", "2"):
        monkeypatch.setenv("RECORD_FORMAT", number)
        operator.main(["migrate", "--apply"])
        assert listed() == left
    assert written_scopes(scope) == {scope}
    capsys.readouterr()


def test_a_change_of_what_lies_in_a_hot_partition_is_refused_for_now(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    made = admin.create(
        "/ssh_user_certificates", {"ssh_certificate_authority_id": authority, "public_key": public_key()}
    )
    with limited() as (spent, _):
        spent[scope := items.scope(admin.account, "/ssh_user_certificates")] = UNITS
        assert admin.patch(f"/ssh_user_certificates/{made['id']}", {"description": "new"}).status == 503
    assert not table.is_spread(scope)


def test_a_busy_account_is_listed_as_a_quiet_one(admin: Client) -> None:
    before, key = page(admin), key_in(admin.token)
    mark(admin.account)
    made = [put(admin.account, key, random.randrange(9)).id for _ in range(20)]
    listed = [event["id"] for event in page(admin)]
    assert listed == [*sorted(made, reverse=True), *(event["id"] for event in before)]
    for limit in (3, 7, 100):
        assert [event["id"] for event in page(admin, f"limit={limit}")] == listed
        assert [event["id"] for event in page(admin, f"limit={limit}&actor_id={key}")] == listed[:20]
    assert admin.get(f"/audit_events/{made[0]}").status in (200, 404)


def test_the_newest_of_a_quiet_account_are_read_in_one_call_while_the_edge_cannot_act_for_it(admin: Client) -> None:
    account, user, token = accounts.create_account("quiet", "ada")
    quiet = replace(admin, account=account.id, user=user.id).with_token(token)
    made = quiet.create("/backends/weighted", {})["id"]
    for limit, has_more in ((100, False), (1, True)):
        with calls() as seen:
            newest, more = reading.page(account.id, before=None, count=limit)
        assert (newest[0].body["resource_id"], more, seen) == (made, has_more, ["Query"])
    with calls() as seen:
        assert len(reading.page(account.id, before=newest[0].id, count=100)[0]) == 3
    assert seen == ["Query", "BatchGetItem"]
    assert len(page(quiet)) == len(page(quiet, "limit=1")) == 4


@pytest.mark.parametrize("kind", ["/ssh_credentials", "/ssh_user_certificates", "/reserved_domains", "a demo tunnel"])
def test_what_the_edge_writes_is_listed_as_soon_as_it_can_act_for_an_account(admin: Client, kind: str) -> None:
    account, user, token = accounts.create_account("quiet", "ada")
    quiet = replace(admin, account=account.id, user=user.id).with_token(token)
    body = BODIES[kind](quiet) if kind in BODIES else {}
    assert partitions.marks(account.id) == {partitions.WITHOUT_EDGE}
    if kind in BODIES:
        quiet.create(kind, body)
    else:
        tunnels.open_demo_tunnel(account.id, {})
    assert partitions.marks(account.id) == frozenset()
    tunnel = {"tunnel_session": "ts", "region": "r", "forwards_to": ""}
    Change(trail.EDGE).put(Item(f"{account.id}#/tunnels", ids.new("tn"), tunnel)).commit()
    assert page(quiet)[0]["actor"]["type"] == "edge"
    mark(account.id)
    assert page(quiet, "limit=1")[0]["actor"]["type"] == "edge"
