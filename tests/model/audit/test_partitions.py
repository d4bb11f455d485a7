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
from tests.storage.limited import UNITS, limit_units
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
    account, author = ids.new("acct"), Trail(EventActor("api_key", ids.new("ak"), ids.new("usr"), "ada"))
    with limit_units() as (spent, turned_away):
        for _ in range(1000):
            id = ids.new("bkdwd")
            apart = Item(f"{account}#/backends/{id}", id, {"backends": {}})  # the resources' own is not the question
            Change(author).put(apart).commit()
    assert max(spent.values()) <= UNITS
    assert len(turned_away) == 1
    first, *other_scopes = partitions.scopes(account)
    assert spent[first] > UNITS - 10  # until it was hot
    assert sum(spent[scope] for scope in (first, *other_scopes)) == 2 * 1000
    assert partitions.is_busy(account)


@pytest.mark.parametrize("path", CERTIFICATES)
def test_a_thousand_certificates_of_an_account_in_a_second_leave_no_key_above_its_units(
    admin: Client, path: str
) -> None:
    client = newcomer(admin, f"issuer{path.replace('/', '-').replace('_', '-')}")
    body = {"ssh_certificate_authority_id": client.create("/ssh_certificate_authorities", {})["id"]}
    certificate = client.create(path, {**body, "public_key": public_key(), "principals": ["deploy"]})
    scope = items.scope(client.account, path)
    item = table.read(scope, certificate["id"])
    assert item is not None
    author, prefix = Trail(EventActor("api_key", ids.new("ak"), client.user, "ada")), item.id.partition("_")[0]
    with limit_units() as (spent, turned_away):
        for _ in range(1000):
            Change(author).put(Item(scope, ids.new(prefix), item.body, unseen=item.unseen)).commit()
    assert max(spent.values()) <= UNITS
    for collection in (scope, partitions.find_first(client.account)):
        assert sum(spent[scope] for scope in (collection, *shards.list_further(collection).scopes)) == 2 * 1000
        assert spent[collection] > UNITS - 10  # until it was hot
    assert 1 <= len(turned_away) <= 2  # both at once, or one after the other


@pytest.mark.parametrize("path", CERTIFICATES)
def test_certificates_of_a_busy_account_are_listed_changed_and_deleted_as_others(
    admin: Client, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = newcomer(admin, f"busy{path.replace('/', '-').replace('_', '-')}")
    body = {"ssh_certificate_authority_id": client.create("/ssh_certificate_authorities", {})["id"]}
    body["public_key"] = public_key()
    certificates = [client.create(path, body) for _ in range(4)]
    direct_writes.spread(scope := items.scope(client.account, path))
    certificates += [client.create(path, body) for _ in range(10)]
    expected = sorted(certificates, key=lambda certificate: certificate["id"], reverse=True)
    assert len(written_scopes(scope)) > 2

    def list_certificates(limit: int = 100) -> list[Any]:
        return list(client.all(path, path[1:], limit))

    assert [list_certificates(limit) for limit in (3, 100)] == [expected] * 2
    assert client.get(f"{path}?owner_id={client.user}").json[path[1:]] == expected
    assert [client.get(f"{path}/{certificate['id']}").json for certificate in certificates] == certificates
    new_bodies = [client.patch(f"{path}/{certificate['id']}", {"description": "new"}).json for certificate in expected]
    assert new_bodies == [{**certificate, "description": "new"} for certificate in expected]
    assert [client.delete(f"{path}/{certificate['id']}").status for certificate in new_bodies[::2]] == [204] * 7
    assert client.get(f"{path}/{new_bodies[0]['id']}").status == 404
    remaining = new_bodies[1::2]
    assert list_certificates() == remaining
    for number in ("3", "2"):
        monkeypatch.setenv("RECORD_FORMAT", number)
        operator.main(["migrate", "--apply"])
        assert list_certificates() == remaining
    assert written_scopes(scope) == {scope}
    capsys.readouterr()


def test_a_change_of_what_lies_in_a_hot_partition_is_refused_for_now(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    certificate = admin.create(
        "/ssh_user_certificates", {"ssh_certificate_authority_id": authority, "public_key": public_key()}
    )
    with limit_units() as (spent, _):
        spent[scope := items.scope(admin.account, "/ssh_user_certificates")] = UNITS
        assert admin.patch(f"/ssh_user_certificates/{certificate['id']}", {"description": "new"}).status == 503
    assert not table.is_spread(scope)


def test_a_busy_account_is_listed_as_a_quiet_one(admin: Client) -> None:
    before, key = page(admin), key_in(admin.token)
    mark(admin.account)
    event_ids = [put(admin.account, key, random.randrange(9)).id for _ in range(20)]
    listed_ids = [event["id"] for event in page(admin)]
    assert listed_ids == [*sorted(event_ids, reverse=True), *(event["id"] for event in before)]
    for limit in (3, 7, 100):
        assert [event["id"] for event in page(admin, f"limit={limit}")] == listed_ids
        assert [event["id"] for event in page(admin, f"limit={limit}&actor_id={key}")] == listed_ids[:20]
    assert admin.get(f"/audit_events/{event_ids[0]}").status in (200, 404)


def test_the_newest_of_a_quiet_account_are_read_in_one_call_while_the_edge_cannot_act_for_it(admin: Client) -> None:
    account, user, token = accounts.create_account("quiet", "ada")
    quiet = replace(admin, account=account.id, user=user.id).with_token(token)
    backend_id = quiet.create("/backends/weighted", {})["id"]
    for limit, has_more in ((100, False), (1, True)):
        with calls() as operations:
            newest, more = reading.read_page(account.id, before=None, count=limit)
        assert (newest[0].body["resource_id"], more, operations) == (backend_id, has_more, ["Query"])
    with calls() as operations:
        assert len(reading.read_page(account.id, before=newest[0].id, count=100)[0]) == 3
    assert operations == ["Query", "BatchGetItem"]
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
