"""The records of the API as the edge reads and writes them."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from botocore.exceptions import EndpointConnectionError

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.model.edges.edges import HttpsEdge
from chalicelib.model.names import base_names, proof_checks, special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tunnels import bindings, gateways, name_bans, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import change_log, items, table
from chalicelib.storage.records.items import Item
from edge.process.settings import SettingError, Settings
from edge.store import control_records, gateway_records, grants, link_authority, threads
from edge.store.records import (
    Grant,
    NameBanned,
    NameNotProved,
    NameNotReserved,
    NameOfEdge,
    NameTaken,
    NameUnreadable,
    Opening,
    TooManyTunnels,
    Unavailable,
)
from edge.store.table import Store, connect
from tests import samples
from tests.gateway_leases import set_lease
from tests.live.edge.running import Key
from tests.proving import prove
from tests.queries import calls
from tests.transports import Client

GATEWAY = Gateway("gw-1", "192.0.2.1", 4433)
NAME = "demo.tunnels.localhost"
PORT = "tunnels.localhost:20001"
USAGE = Traffic(bytes_in=10, bytes_out=2_000, requests=3)


@pytest.fixture
def records() -> Store:
    made = Store("local", "tunnels.localhost")
    gateways.announce(GATEWAY, lease=60)
    return made


def served(store: Store) -> list[tuple[str, str]]:
    """Return the names that a store lists as carried, with the ids of their tunnels."""
    return sorted((it.name, it.id) for it in online_tunnels.read_tunnels_of_gateway("gw-1"))


def close(tunnel: ServedTunnel) -> None:
    tunnels.close_tunnel(tunnel.account, tunnel.id, usage=USAGE)


def lost(store: Store, tunnels: Sequence[ServedTunnel]) -> frozenset[str]:
    """Return the ids of tunnels without a record or the right to their name."""
    return online_tunnels.find_missing(tunnels) | bindings.find_disallowed(tunnels, "tunnels.localhost")


def changed_ids(store: Store, since: float) -> set[str]:
    """Return the ids of the records that the log names since a second."""
    return {item_key.id for change in change_log.read_since(since) for item_key in change.item_keys}


def credential(client: Client, folder: Path, **fields: Any) -> tuple[Key, str]:
    """Return a key, and the id of the credential that the API made of it."""
    key = Key.make(folder, f"key{len([*folder.iterdir()])}")
    return key, client.create("/ssh_credentials", {"public_key": key.file.with_suffix(".pub").read_text(), **fields})[
        "id"
    ]


def opening(grant: Grant, name: str = NAME, **fields: Any) -> Opening:
    return Opening(grant, "gw-1", "ts_1", "192.0.2.9", name, f"https://{name}", **fields)


def test_a_key_signs_in_while_its_credential_may(records: Store, admin: Client, tmp_path: Path) -> None:
    bot = admin.create("/bot_users", {"name": "bot"})
    key, id = credential(admin, tmp_path, acl=["bind:*.tunnels.localhost"], owner_id=bot["id"])
    grant = Grant(admin.account, id, ("bind:*.tunnels.localhost",))
    assert grants.find_by_key(key.fingerprint) == grants.refresh(grant) == grant
    admin.patch(f"/ssh_credentials/{id}", {"acl": ["bind:a.example.com"]})
    assert grants.refresh(grant) == Grant(admin.account, id, ("bind:a.example.com",))
    admin.patch(f"/bot_users/{bot['id']}", {"active": False})
    assert (grants.find_by_key(key.fingerprint), grants.refresh(grant)) == (None, None)
    admin.patch(f"/bot_users/{bot['id']}", {"active": True})
    admin.delete(f"/ssh_credentials/{id}")
    assert (grants.find_by_key(key.fingerprint), grants.refresh(grant)) == (None, None)


def test_a_certificate_signs_in_until_it_is_deleted(records: Store, admin: Client, tmp_path: Path) -> None:
    authority, other = (admin.create("/ssh_certificate_authorities", {}) for _ in range(2))
    key = Key.make(tmp_path, "key").file.with_suffix(".pub").read_text()
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": key}
    id = admin.create("/ssh_user_certificates", body)["id"]
    grant = Grant(admin.account, id, ())
    assert grants.find_by_certificate(fingerprint(authority), id) == grants.refresh(grant) == grant
    assert grants.find_by_certificate(fingerprint(other), id) is None
    assert grants.find_by_certificate(fingerprint(authority), "anything") is None
    assert grants.find_by_certificate("SHA256:unknown", id) is None
    admin.delete(f"/ssh_user_certificates/{id}")
    assert (grants.find_by_certificate(fingerprint(authority), id), grants.refresh(grant)) == (None, None)


def test_the_bind_rules_of_a_certificate_are_its_acl(records: Store, admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}
    rules = ("bind:demo.example.com", "bind:region=eu")
    extensions = {"permit-port-forwarding": "", "bind@tunnel-edge": ",".join(rules)}
    id = admin.create("/ssh_user_certificates", {**body, "extensions": extensions})["id"]
    grant = Grant(admin.account, id, rules)
    assert grants.find_by_certificate(fingerprint(authority), id) == grants.refresh(grant) == grant


@pytest.mark.parametrize(
    "value", ["", " ", ",", "demo.example.com", "bind:a.example,", "bind:a.example, bind:b.example", 1]
)
def test_a_certificate_with_malformed_bind_rules_does_not_sign_in(records: Store, admin: Client, value: object) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}
    id = admin.create("/ssh_user_certificates", {**body, "extensions": {"bind@tunnel-edge": "*"}})["id"]
    grant, item_key = Grant(admin.account, id, ("*",)), (f"{admin.account}#/ssh_user_certificates", id)
    assert grants.find_by_certificate(fingerprint(authority), id) == grant
    damaged = {"body.extensions": {"bind@tunnel-edge": value}}
    dynamodb.do(Write.update(*item_key, Condition("attribute_exists(#id)"), sets=damaged))
    assert (grants.find_by_certificate(fingerprint(authority), id), grants.refresh(grant)) == (None, None)


@pytest.mark.parametrize("revoked", ["ssh_user_certificate_id", "serial", "public_key"])
def test_a_revoked_certificate_signs_in_no_more(records: Store, admin: Client, tmp_path: Path, revoked: str) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})
    file = Key.make(tmp_path, "key").file
    key = file.with_suffix(".pub").read_text()
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": key}
    made = admin.create("/ssh_user_certificates", body)
    line = tmp_path / "cert.pub"
    line.write_text(made["certificate"])
    said = subprocess.run(["ssh-keygen", "-L", "-f", line], check=True, capture_output=True, text=True).stdout
    serial = re.search(r"Serial: (\d+)", said)
    assert serial
    values = {"ssh_user_certificate_id": made["id"], "serial": serial[1], "public_key": key}
    grant = Grant(admin.account, made["id"], ())
    assert grants.find_by_certificate(fingerprint(authority), made["id"]) == grant

    revocations = f"/ssh_certificate_authorities/{authority['id']}/revocations"
    admin.create(revocations, {revoked: values[revoked]})

    assert grants.find_by_certificate(fingerprint(authority), made["id"]) is None
    assert grants.refresh(grant) is None


@pytest.mark.parametrize("how", ["tunnels end", "names ban"])
def test_what_the_operator_ends_is_served_no_more(records: Store, admin: Client, how: str) -> None:
    leased = records.open(opening(Grant(admin.account, "sshcr_1", ())), most=100)
    assert served(records) == [(NAME, leased.id)]
    since = time.time()
    operator.main([*how.split(), leased.id if how == "tunnels end" else NAME])
    assert (served(records), leased.id in changed_ids(records, since - 0.001)) == ([], True)


def test_tunnels_that_are_opened_at_once_are_no_more_than_an_account_may_have(records: Store, admin: Client) -> None:
    grant, events, between = Grant(admin.account, "sshcr_1", ()), aws.client("dynamodb").meta.events, ["b"]

    def opened(name: str) -> str:
        return records.open(opening(grant, f"{name}.tunnels.localhost"), most=2).id

    def open_another(**_: object) -> None:
        """Open a tunnel when another opening has read how many there are."""
        if between:
            assert opened(between.pop())

    opened("a")
    events.register("after-call.dynamodb.Query", open_another)
    with pytest.raises(TooManyTunnels):
        opened("c")
    events.unregister("after-call.dynamodb.Query", open_another)
    assert [name for name, _ in served(records)] == ["a.tunnels.localhost", "b.tunnels.localhost"]
    assert len(online_tunnels.list_online(admin.account)) == 2


def test_a_store_that_fails_when_a_tunnel_is_open_leaves_none_without_a_client(records: Store, admin: Client) -> None:
    events, written = aws.client("dynamodb").meta.events, []

    def fail(model: Any, **_: object) -> None:
        written.append(model.name)
        if model.name == "Query" and "TransactWriteItems" in written and written.count("Query") <= 2:
            raise EndpointConnectionError(endpoint_url="http://store")

    events.register("before-call.dynamodb", fail)
    with pytest.raises(aws.Unavailable):
        records.open(opening(Grant(admin.account, "sshcr_1", ())), most=100)
    events.unregister("before-call.dynamodb", fail)
    assert "Query" in written[written.index("TransactWriteItems") :]
    assert online_tunnels.list_online(admin.account) == []


@pytest.mark.parametrize(("name", "proto"), [(NAME, "https"), (NAME, "tls"), (PORT, "tcp")])
def test_a_tunnel_is_carried_from_its_opening_to_its_end(
    records: Store, admin: Client, name: str, proto: Literal["https", "tls", "tcp"]
) -> None:
    began, grant = time.time() - 0.01, Grant(admin.account, "sshcr_1", ())
    leased = records.open(opening(grant, name, proto=proto, proxy_protocol=True), most=100)
    assert leased == ServedTunnel(admin.account, leased.id, "gw-1", name, proto=proto, proxy_protocol=True)
    assert served(records) == [(name, leased.id)]
    assert leased.id in changed_ids(records, began)
    assert online_tunnels.find_missing([leased]) == frozenset()
    before = time.time()
    close(leased)
    assert (served(records), leased.id in changed_ids(records, before - 0.001)) == ([], True)
    assert online_tunnels.find_missing([leased]) == {leased.id}


def test_the_events_of_a_tunnel_tell_who_opened_it_from_where_and_what_went_through(
    records: Store, admin: Client
) -> None:
    named = opening(Grant(admin.account, "sshcr_1", ()), address="192.0.2.9", client="SSH-2.0-x\x1b[2J" + "é" * 200)
    labelled = Opening(named.grant, "gw-1", "ts_1", "192.0.2.9", labels=(("app", "web"),), address="192.0.2.9")
    for asked in (named, labelled):
        close(records.open(asked, most=100))
    ended, opened, by_name_ended, by_name = (
        event["details"] for event in admin.get("/audit_events?action=tunnel.*").json["audit_events"]
    )
    client = "SSH-2.0-x[2J" + "é" * 121
    who = {"credential": "sshcr_1", "address": "192.0.2.9"}
    assert by_name == {**who, "name": NAME, "public_url": f"https://{NAME}", "client": client}
    assert opened == {**who, "labels.app": "web"}
    used = {"bytes_in": "10", "bytes_out": "2000", "requests": "3"}
    for end, start in ((ended, opened), (by_name_ended, by_name)):
        assert int(end.pop("seconds")) < 10
        assert end == {**start, **used}


def test_a_tunnel_that_its_gateway_did_not_end_tells_its_seconds_alone(records: Store, admin: Client) -> None:
    tunnel = records.open(opening(Grant(admin.account, "sshcr_1", ())), most=100)
    set_lease("gw-1", -10)
    assert gateways.fence("gw-1")
    (gateway,) = gateways.list_gateways()
    assert online_tunnels.end_of_gateway(tunnel, gateway)
    ended, opened = (event["details"] for event in admin.get("/audit_events?action=tunnel.*").json["audit_events"])
    assert ended == {**opened, "seconds": "0"}


def test_a_gateway_is_up_from_its_first_word_to_its_last(records: Store) -> None:
    other, began = Gateway("gw-2", "192.0.2.2", 4433), time.time() - 0.001
    assert gateways.announce(other, lease=60)
    assert not gateways.announce(other, lease=60)
    assert sorted((it.id, it.is_live) for it in gateways.list_gateways()) == [("gw-1", True), ("gw-2", True)]
    assert other.id in changed_ids(records, began)
    assert gateways.change(replace(other, port=5000, draining=True))
    assert sorted((it.port, it.draining) for it in gateways.list_gateways()) == [(4433, False), (5000, True)]
    gateway_records.withdraw_gateway("gw-1")
    assert [it.id for it in gateways.list_gateways()] == ["gw-2"]
    assert changed_ids(records, began) == {GATEWAY.id, other.id}
    assert [gateways.renew(id, lease=60) for id in ("gw-1", "gw-2")] == [False, True]
    assert change_log.read_since(time.time() + 1) == []


def test_a_gateway_that_has_ended_leaves_its_names_and_each_tunnel_is_ended_once(
    records: Store, admin: Client, stranger: Client
) -> None:
    left, taken = (
        records.open(opening(Grant(admin.account, "sshcr_1", ()), name), most=100) for name in (f"left.{NAME}", NAME)
    )
    gateway_records.withdraw_gateway("gw-1")
    (gateway,) = gateways.list_gateways()
    assert gateway.ended
    assert gateways.announce(Gateway("gw-2", "192.0.2.2", 4433), lease=60)
    again = records.open(replace(opening(Grant(stranger.account, "sshcr_2", ())), gateway="gw-2"), most=100)
    assert [it.id for it in online_tunnels.read_tunnels_of_gateway("gw-2")] == [again.id]
    assert [online_tunnels.end_of_gateway(it, gateway) for it in (left, left, taken)] == [True, False, False]
    assert online_tunnels.read_tunnels_of_gateway("gw-1") == []


def test_names_are_refused_for_what_they_are(records: Store, admin: Client, stranger: Client) -> None:
    mine, other = Grant(admin.account, "sshcr_1", ()), Grant(stranger.account, "sshcr_2", ())
    first = records.open(opening(mine), most=100)
    with pytest.raises(NameTaken):
        records.open(opening(other), most=100)
    with pytest.raises(NameTaken):
        records.open(opening(replace(mine, credential="sshcr_3")), most=100)
    again = records.open(opening(mine), most=100)
    assert online_tunnels.find_missing([first, again]) == {first.id}
    with pytest.raises(TooManyTunnels):
        records.open(opening(mine, "b.tunnels.localhost"), most=0)


@pytest.fixture
def tunnel_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the API know the domain, with which the table is used anew."""
    monkeypatch.setenv("TUNNEL_DOMAIN", "tunnels.localhost")
    monkeypatch.setenv("TCP_PORTS", "")
    base_names.forget_settings()
    yield
    base_names.forget_settings()


@pytest.mark.usefixtures("tunnel_domain")
def test_a_name_of_another_account_is_refused_and_an_edge_wins_over_a_tunnel(
    records: Store, admin: Client, stranger: Client
) -> None:
    mine, other = Grant(admin.account, "sshcr_1", ()), Grant(stranger.account, "sshcr_2", ())
    edge = admin.create("/edges/https", {"hostports": ["x.demo.tunnels.localhost:443"]})
    with pytest.raises(NameTaken):
        records.open(opening(other), most=100)
    assert not records.is_reserved(admin.account, NAME)
    close(records.open(opening(mine), most=100))
    admin.patch(f"/edges/https/{edge['id']}", {"hostports": [f"{NAME}:443"]})
    with pytest.raises(NameOfEdge):
        records.open(opening(mine), most=100)
    with pytest.raises(NameTaken):
        records.open(opening(other), most=100)


@pytest.mark.usefixtures("tunnel_domain")
def test_a_domain_elsewhere_is_bound_by_who_proves_it_as_long_as_the_proof_holds(
    records: Store, admin: Client, stranger: Client
) -> None:
    mine, other = Grant(admin.account, "sshcr_1", ()), Grant(stranger.account, "sshcr_2", ())
    wildcard, exact = (
        client.create("/reserved_domains", {"domain": domain})["id"]
        for client, domain in ((admin, "*.example.com"), (stranger, "shop.example.com"))
    )

    def opened(grant: Grant, name: str = "shop.example.com") -> ServedTunnel:
        return records.open(opening(grant, name), most=100)

    for grant in (mine, other):
        with pytest.raises(NameNotProved):
            opened(grant)
    prove(wildcard)
    first = opened(mine)
    assert records.is_reserved(admin.account, "shop.example.com")
    assert lost(records, [first]) == frozenset()
    for grant, name in ((other, "shop.example.com"), (mine, "example.com")):
        with pytest.raises(NameNotProved):
            opened(grant, name)

    prove(exact)  # the longer one wins, though the other's tunnel is still online
    second = opened(other)
    assert served(records) == [("shop.example.com", second.id)]
    assert lost(records, [first, second]) == {first.id}
    prove(exact, "lapsed")
    assert lost(records, [second]) == {second.id}
    again = opened(mine)
    name_bans.ban_name("shop.example.com")
    assert lost(records, [again]) == {again.id}
    with pytest.raises(NameBanned):
        opened(mine)


@pytest.mark.usefixtures("tunnel_domain")
def test_a_renewal_ends_what_an_edge_has_taken_and_what_a_limited_account_has_not_reserved(
    records: Store, admin: Client
) -> None:
    mine = Grant(admin.account, "sshcr_1", ())
    admin.create("/reserved_domains", {"domain": "kept.tunnels.localhost"})
    loose, kept, taken, backend = (
        records.open(it, most=100)
        for it in (
            opening(mine),
            opening(mine, "kept.tunnels.localhost"),
            opening(mine, "taken.tunnels.localhost"),
            Opening(mine, "gw-1", "ts_1", "192.0.2.9", labels=(("Region", "EU"),)),
        )
    )
    operator.main(["accounts", "limits", admin.account, "--only-reserved"])
    assert lost(records, [loose, kept, taken, backend]) == {loose.id, taken.id}
    operator.main(["accounts", "limits", admin.account, "--no-only-reserved"])
    assert lost(records, [loose, kept, taken, backend]) == frozenset()
    commit_alone(admin, "taken.tunnels.localhost:443")
    assert lost(records, [loose, kept, taken, backend]) == {taken.id}


def commit_alone(client: Client, hostport: str) -> None:
    """Make an edge whose process ends with its commit, before it has ended the tunnel that is there."""
    stored = HttpsEdge(hostports=[hostport])
    scope, id = items.scope(client.account, kinds.HTTPS_EDGES.path), ids.new(kinds.HTTPS_EDGES.prefix)
    item = Item(scope, id, stored.to_record(), unique_keys=stored.unique_keys(client.account, id))
    Change(trail.OPERATOR).put(item).commit()


def opening_of_port(client: Client, credential: str = "sshcr_1") -> Opening:
    return replace(opening(Grant(client.account, credential, ()), PORT, proto="tcp"), url=f"tcp://{PORT}")


def test_a_port_is_had_by_one_credential_which_takes_it_over(records: Store, admin: Client, stranger: Client) -> None:
    first = records.open(opening_of_port(admin), most=100)
    for asked in (opening_of_port(stranger), opening_of_port(admin, "sshcr_2")):
        with pytest.raises(NameTaken):
            records.open(asked, most=100)
    second = records.open(opening_of_port(admin), most=100)
    assert online_tunnels.find_missing([first, second]) == {first.id}
    close(second)
    records.open(opening_of_port(stranger), most=100)


def test_why_a_port_is_not_served_is_noted_for_its_gateway_until_it_has_ended(records: Store, admin: Client) -> None:
    tunnel = records.open(opening_of_port(admin), most=100)
    assert tunnels.read_refusal(tunnel) == ""
    since = time.time() - 1
    for reason in ("Address already in use", ""):
        tunnels.record_refusal(tunnel, reason)
        assert tunnels.read_refusal(tunnel) == reason
    assert len([it for change in change_log.read_since(since) for it in change.item_keys if it.id == tunnel.id]) == 3
    close(tunnel)
    tunnels.record_refusal(tunnel, "Address already in use")
    assert online_tunnels.read_tunnels_of_gateway("gw-1") == []


def test_the_operator_bans_a_port_and_is_told_who_had_it(
    records: Store, admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    leased = records.open(opening_of_port(admin), most=100)
    operator.main(["tunnels", "list"])
    assert capsys.readouterr().out.endswith(f" sshcr_1 tcp://{PORT}\n")
    operator.main(["names", "ban", PORT])
    assert served(records) == []
    with pytest.raises(NameBanned):
        records.open(opening_of_port(admin), most=100)
    operator.main(["tunnels", "who", f"tcp://{PORT}", "--at", ids.time_of(leased.id)])
    assert f"tunnel {leased.id}\n" in capsys.readouterr().out
    operator.main(["names", "allow", PORT])
    records.open(opening_of_port(admin), most=100)


@pytest.mark.parametrize("read", ["GetItem", "Query"])
def test_of_two_accounts_that_race_for_a_port_one_has_it(
    records: Store, admin: Client, stranger: Client, read: str
) -> None:
    events, others = aws.client("dynamodb").meta.events, [opening_of_port(stranger)]
    won: list[ServedTunnel] = []

    def overtake(**_: object) -> None:
        """Have the other account open its tunnel between a read and the write of this one's."""
        if others:
            won.append(records.open(others.pop(), most=100))

    events.register(f"after-call.dynamodb.{read}", overtake)
    with pytest.raises(NameTaken):
        records.open(opening_of_port(admin), most=100)
    events.unregister(f"after-call.dynamodb.{read}", overtake)
    assert served(records) == [(PORT, won[0].id)]
    assert online_tunnels.list_online(admin.account) == []


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.usefixtures("tunnel_domain")
def test_a_reservation_says_whether_its_upstream_reads_the_proxy_protocol(
    records: Store, admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch, flag: bool
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20001")
    admin.create("/reserved_addrs", {"proxy_protocol": flag})
    admin.create("/reserved_domains", {"domain": "*.a.tunnels.localhost", "proxy_protocol": not flag})
    admin.create("/reserved_domains", {"domain": "a.tunnels.localhost", "proxy_protocol": flag})
    for name in (PORT, "a.tunnels.localhost"):
        assert records.wants_proxy_protocol(admin.account, name) is flag
        assert not records.wants_proxy_protocol(stranger.account, name)
    assert not records.wants_proxy_protocol(admin.account, NAME)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda _: "of another form",
        lambda _: {},
        lambda _: {"description": "without all else"},
        lambda whole: {**whole, "proxy_protocol": "yes"},
    ],
)
@pytest.mark.usefixtures("tunnel_domain")
def test_a_reservation_that_cannot_be_understood_is_known_and_opens_nothing(
    records: Store, admin: Client, monkeypatch: pytest.MonkeyPatch, damaged: Callable[[dict[str, Any]], Any]
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20001")
    address = admin.create("/reserved_addrs", {"proxy_protocol": True})["id"]
    below, above = (
        admin.create("/reserved_domains", {"domain": domain, "proxy_protocol": True})["id"]
        for domain in (NAME, "*.example.com")
    )
    prove(above)
    for path, id in (("/reserved_addrs", address), ("/reserved_domains", below), ("/reserved_domains", above)):
        scope = items.scope(admin.account, path)
        item = table.read(scope, id)
        assert item
        dynamodb.do(Write.update(scope, id, Condition(""), sets={"body": damaged(item.body)}))

    for name in (NAME, "a.example.com", PORT):
        with pytest.raises(NameUnreadable):
            records.wants_proxy_protocol(admin.account, name)


@pytest.mark.usefixtures("tunnel_domain")
def test_a_look_passes_over_a_reservation_that_cannot_be_understood(records: Store, admin: Client) -> None:
    lost, whole = (admin.create("/reserved_domains", {"domain": f"{it}.example.com"})["id"] for it in "ab")
    scope = items.scope(admin.account, "/reserved_domains")
    for body in ("of another form", {}, {"description": "without all else"}, {"domain": "a", "proof": {"value": "v"}}):
        dynamodb.do(Write.update(scope, lost, Condition(""), sets={"body": body}))
        assert [it.id for it in proof_checks.find_due(clock.seconds(), 100)] == [whole]


@pytest.mark.usefixtures("tunnel_domain")
def test_a_port_of_chance_is_one_that_nobody_has_or_has_reserved(
    records: Store, admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20001-20003")
    ports = [f"tunnels.localhost:{port}" for port in (20001, 20002, 20003)]
    reserved = admin.create("/reserved_addrs", {})["addr"]
    free = base_names.find_free_address(stranger.account, ports)
    assert free
    leased = records.open(replace(opening_of_port(admin), name=free), most=100)
    (last,) = set(ports) - {reserved, free}
    assert (
        base_names.find_free_address(admin.account, ports)
        == base_names.find_free_address(stranger.account, ports)
        == last
    )
    assert base_names.find_free_address(admin.account, [reserved, free]) is None
    close(leased)
    assert base_names.find_free_address(stranger.account, [free]) == free


@pytest.mark.usefixtures("tunnel_domain")
def test_a_reserved_port_is_its_account_s_and_an_edge_wins_over_its_tunnel(
    records: Store, admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20001")
    address = admin.create("/reserved_addrs", {})
    assert address["addr"] == PORT
    operator.main(["accounts", "limits", admin.account, "--only-reserved"])
    with pytest.raises(NameTaken):
        records.open(opening_of_port(stranger), most=100)
    mine = records.open(opening_of_port(admin), most=100)
    assert records.is_reserved(admin.account, PORT)
    assert lost(records, [mine]) == frozenset()
    (event,) = admin.get("/audit_events?action=tunnel.create").json["audit_events"]
    assert (event["resource_id"], event["details"]["name"]) == (mine.id, PORT)
    admin.create("/edges/tcp", {"hostports": [PORT]})
    assert lost(records, [mine]) == {mine.id}
    with pytest.raises(NameOfEdge):
        records.open(opening_of_port(admin), most=100)


@pytest.mark.usefixtures("tunnel_domain")
@pytest.mark.parametrize("count", [1, 30])
def test_opening_a_tunnel_takes_the_same_calls_whatever_is_reserved(records: Store, admin: Client, count: int) -> None:
    for number in range(count):
        admin.create("/reserved_domains", {"domain": f"n{number}.tunnels.localhost"})
    with calls() as made:
        assert records.is_reserved(admin.account, "n0.tunnels.localhost")
        records.open(opening(Grant(admin.account, "sshcr_1", ()), "n0.tunnels.localhost"), most=100)
    assert made == ["GetItem", "GetItem", "Query", "TransactWriteItems", "Query"]


def test_an_account_may_be_limited_to_reserved_names(records: Store, admin: Client) -> None:
    mine = Grant(admin.account, "sshcr_1", ())
    operator.main(["accounts", "limits", admin.account, "--only-reserved"])
    with pytest.raises(NameNotReserved):
        records.open(opening(mine), most=100)
    backend = Opening(mine, "gw-1", "ts_1", "192.0.2.9", labels=(("Region", "EU"),))
    close(records.open(backend, most=100))
    operator.main(["accounts", "limits", admin.account, "--no-only-reserved"])
    records.open(opening(mine), most=100)


@pytest.mark.usefixtures("tunnel_domain")
@pytest.mark.parametrize(
    ("domain", "ports", "there", "here"),
    [
        ("other.example", "", "TUNNEL_DOMAIN=tunnels.localhost", "TUNNEL_DOMAIN=other.example"),
        ("tunnels.localhost", "20000-20099", "TCP_PORTS=unset", "TCP_PORTS=20000-20099"),
    ],
)
def test_an_edge_with_other_settings_than_the_table_s_is_not_started(
    monkeypatch: pytest.MonkeyPatch, domain: str, ports: str, there: str, here: str
) -> None:
    connect(Settings())
    monkeypatch.setenv("TCP_PORTS", ports)
    with pytest.raises(SettingError) as refused:
        connect(Settings(tunnel_domain=domain))
    assert str(refused.value) == (
        f"The table stores {there}, but the settings are {here}: use the values of the table. To change them, "
        "stop what uses the table and run 'python -m chalicelib names forget-settings'."
    )


def test_a_banned_name_is_refused(records: Store, admin: Client) -> None:
    name_bans.ban_name(NAME)
    with pytest.raises(NameBanned):
        records.open(opening(Grant(admin.account, "sshcr_1", ())), most=100)


def test_a_backend_tunnel_is_carried_without_a_name(records: Store, admin: Client) -> None:
    asked = Opening(Grant(admin.account, "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", labels=(("Region", "EU"),))
    leased = records.open(asked, most=100)
    assert served(records) == [("", leased.id)]


def test_a_tunnel_is_in_the_region_of_its_gateway(admin: Client) -> None:
    west = Store("west", "tunnels.localhost")
    gateways.announce(GATEWAY, lease=60)
    id = west.open(opening(Grant(admin.account, "sshcr_1", ())), most=100).id
    assert admin.get(f"/tunnels/{id}").json["region"] == "west"


def test_a_check_of_rights_reads_each_record_once(records: Store, admin: Client, tmp_path: Path) -> None:
    ids = [credential(admin, tmp_path)[1] for _ in range(2)]

    def open_with(credential: str, number: int) -> tuple[ServedTunnel, Opening]:
        asked = opening(Grant(admin.account, credential, ()), f"n{number}.tunnels.localhost")
        return records.open(asked, most=100), asked

    online = [open_with(ids[number % 2], number) for number in range(4)]
    with calls() as of_two:
        assert records.find_unpermitted(online[:2]) == frozenset()
    with calls() as of_four:
        assert records.find_unpermitted(online) == frozenset()
    assert len(of_four) == len(of_two), of_four


def test_what_a_right_rests_on_is_told_when_it_changes(records: Store, admin: Client, tmp_path: Path) -> None:
    def changed(since: float) -> set[str]:
        return {item_key.scope for change in change_log.read_since(since) for item_key in change.item_keys}

    authority = admin.create("/ssh_certificate_authorities", {})
    bot = admin.create("/bot_users", {"name": "bot"})
    _, id = credential(admin, tmp_path, owner_id=bot["id"])
    since = time.time()
    admin.patch(f"/bot_users/{bot['id']}", {"active": False})
    admin.delete(f"/ssh_credentials/{id}")
    admin.create(f"/ssh_certificate_authorities/{authority['id']}/revocations", {"serial": "1"})
    operator.main(["accounts", "disable", admin.account])
    operator.main(["names", "ban", NAME])
    assert changed(since - 0.001) == {
        f"{admin.account}#/bot_users",
        f"{admin.account}#/ssh_credentials",
        f"{admin.account}#/ssh_certificate_authorities/{authority['id']}/revocations",
        "accounts",
        "edge#/banned_names",
        f"tunnel_name#{NAME}",
    }
    admin.get("/tunnels")
    assert changed(time.time()) == set()


def test_every_edge_has_the_same_authority_for_the_link() -> None:
    first, second = (
        link_authority.read_or_create(),
        link_authority.read_or_create(),
    )
    assert first.to_pem() == second.to_pem()
    stored = str(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"])
    assert "PRIVATE KEY" not in stored


def test_a_store_that_is_away_is_told_as_such(records: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "no-such-table")
    with pytest.raises(Unavailable):
        asyncio.run(threads.call(gateways.list_gateways))


def fingerprint(authority: dict[str, Any]) -> str:
    command = ["ssh-keygen", "-l", "-f", "-"]
    done = subprocess.run(command, input=authority["public_key"], check=True, capture_output=True, text=True)
    return str(done.stdout).split()[1]


def test_control_reads_which_networks_are_blocked(records: Store) -> None:
    operator.main(["networks", "block", "192.0.2.9/24"])
    assert control_records.read_blocks() == (["192.0.2.0/24"], [])
    operator.main(["networks", "unblock", "192.0.2.0/24"])
    assert control_records.read_blocks() == ([], [])


def test_control_reads_which_names_and_patterns_are_banned(records: Store) -> None:
    for name in (NAME, "*bank*", "tunnels.localhost:20022"):
        operator.main(["names", "ban", name])
    assert control_records.read_blocks() == ([], [NAME, "*bank*"])


def test_control_reads_the_answer_of_a_challenge_that_the_log_reports(records: Store) -> None:
    domain, pending, since = "app.example.com", PendingChallenge("token", "token.print"), time.time() - 1
    assert challenge_records.find(domain) is None
    challenge_records.put(domain, pending)
    assert challenge_records.find(domain) == pending
    item_keys = {item_key for change in change_log.read_since(since) for item_key in change.item_keys}
    assert domain in map(challenge_records.find_domain, item_keys)


def test_special_names_of_edges_and_tunnels_are_listed_together(records: Store, admin: Client, tmp_path: Path) -> None:
    edge = admin.create("/edges/tls", {"hostports": ["shop.example.com:443"]})["id"]
    _, id = credential(admin, tmp_path)
    grant = Grant(admin.account, id, ())
    tunnels = [
        records.open(opening(grant, PORT, proto="tcp"), most=9),
        records.open(opening(grant, NAME, proto="tls"), most=9),
        records.open(opening(grant, f"other.{NAME}"), most=9),
    ]
    entries = {
        SpecialEntry(SpecialOwner(admin.account, edge), ("shop.example.com:443",)),
        SpecialEntry(SpecialOwner(admin.account, tunnels[0].id), (PORT,)),
        SpecialEntry(SpecialOwner(admin.account, tunnels[1].id), (f"{NAME}:443",)),
    }
    assert {*control_records.list_special_names()} == entries
    assert special_names.read(it.owner for it in entries) == {it.owner: it for it in entries}
    assert special_names.read([SpecialOwner(admin.account, tunnels[2].id)]) == {}
    named = {special_names.find_owner(item_key) for change in change_log.read_since(0) for item_key in change.item_keys}
    assert {it.owner for it in entries} <= named


def test_malformed_entries_of_special_names_are_logged(
    records: Store, admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    edge = admin.create("/edges/tls", {"hostports": ["shop.example.com:443"]})["id"]
    dynamodb.do(Write.put({"scope": "edge#/special/3", "id": "x", "body": {}}))
    expected = [SpecialEntry(SpecialOwner(admin.account, edge), ("shop.example.com:443",))]
    assert control_records.list_special_names() == expected
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["id"]) == ("listing_unreadable", "x")


@pytest.mark.parametrize("hostports", [7, [7]])
def test_the_hosts_of_an_account_with_a_malformed_edge_are_listed(
    records: Store, admin: Client, hostports: object
) -> None:
    names = ("demo", "damaged")
    ids = [admin.create("/edges/https", {"hostports": [f"{it}.tunnels.localhost:443"]})["id"] for it in names]
    malformed = {"body.hostports": hostports}
    dynamodb.do(Write.update(f"{admin.account}#/edges/https", ids[1], Condition(""), sets=malformed))
    assert control_records.list_hosts(admin.account).hosts == {f"{it}.tunnels.localhost" for it in names}
