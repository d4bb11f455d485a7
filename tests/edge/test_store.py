"""The records of the API as the edge reads and writes them."""

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chalicelib import __main__ as operator
from chalicelib.model import tunnels
from chalicelib.storage import aws
from edge.records import Gateway, Grant, NameBanned, NameTaken, Opening, Site, TooManyTunnels, Unavailable
from edge.settings import Settings
from edge.store import Records
from tests import openssl
from tests.edge.running import Key
from tests.transports import Client

GATEWAY = Gateway("gw-1", "192.0.2.1", 4433)
NAME = "demo.tunnels.localhost"


@pytest.fixture
def records() -> Records:
    made = Records(Settings())
    made.announce(GATEWAY, lease=60)
    return made


def credential(client: Client, folder: Path, **fields: Any) -> tuple[Key, str]:
    """Return a key, and the id of the credential that the API made of it."""
    key = Key.make(folder, f"key{len([*folder.iterdir()])}")
    return key, client.create("/ssh_credentials", {"public_key": key.file.with_suffix(".pub").read_text(), **fields})[
        "id"
    ]


def opening(grant: Grant, name: str = NAME, **fields: Any) -> Opening:
    return Opening(grant, "gw-1", "ts_1", "192.0.2.9", name, f"https://{name}", **fields)


def test_a_key_signs_in_while_its_credential_may(records: Records, admin: Client, tmp_path: Path) -> None:
    bot = admin.create("/bot_users", {"name": "bot"})
    key, id = credential(admin, tmp_path, acl=["bind:*.tunnels.localhost"], owner_id=bot["id"])
    grant = Grant(admin.account, id, ("bind:*.tunnels.localhost",))
    assert records.grant_of_key(key.fingerprint) == records.grant_again(grant) == grant
    admin.patch(f"/ssh_credentials/{id}", {"acl": ["bind:a.example.com"]})
    assert records.grant_again(grant) == Grant(admin.account, id, ("bind:a.example.com",))
    admin.patch(f"/bot_users/{bot['id']}", {"active": False})
    assert (records.grant_of_key(key.fingerprint), records.grant_again(grant)) == (None, None)
    admin.patch(f"/bot_users/{bot['id']}", {"active": True})
    admin.delete(f"/ssh_credentials/{id}")
    assert (records.grant_of_key(key.fingerprint), records.grant_again(grant)) == (None, None)


def test_a_certificate_signs_in_until_it_is_deleted(records: Records, admin: Client, tmp_path: Path) -> None:
    authority, other = (admin.create("/ssh_certificate_authorities", {}) for _ in range(2))
    key = Key.make(tmp_path, "key").file.with_suffix(".pub").read_text()
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": key}
    id = admin.create("/ssh_user_certificates", body)["id"]
    grant = Grant(admin.account, id, ())
    assert records.grant_of_certificate(fingerprint(authority), id) == records.grant_again(grant) == grant
    assert records.grant_of_certificate(fingerprint(other), id) is None
    assert records.grant_of_certificate(fingerprint(authority), "anything") is None
    assert records.grant_of_certificate("SHA256:unknown", id) is None
    admin.delete(f"/ssh_user_certificates/{id}")
    assert (records.grant_of_certificate(fingerprint(authority), id), records.grant_again(grant)) == (None, None)


@pytest.mark.parametrize("revoked", ["ssh_user_certificate_id", "serial", "public_key"])
def test_a_revoked_certificate_signs_in_no_more(records: Records, admin: Client, tmp_path: Path, revoked: str) -> None:
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
    assert records.grant_of_certificate(fingerprint(authority), made["id"]) == grant

    revocations = f"/ssh_certificate_authorities/{authority['id']}/revocations"
    admin.create(revocations, {revoked: values[revoked]})

    assert records.grant_of_certificate(fingerprint(authority), made["id"]) is None
    assert records.grant_again(grant) is None


def test_a_tunnel_is_served_from_its_opening_to_its_end(records: Records, admin: Client) -> None:
    grant = Grant(admin.account, "sshcr_1", ())
    leased = records.open(opening(grant), lease=60, most=100)
    assert admin.get(f"/tunnels/{leased.id}").json["public_url"] == f"https://{NAME}"
    served = records.served()
    assert served.gateways == (GATEWAY,)
    assert served.sites == (Site(NAME, leased.id, admin.account, "gw-1"),)
    assert records.renew([leased], lease=60) == frozenset()
    records.close(leased)
    assert records.served().sites == ()
    assert records.renew([leased], lease=60) == {leased.id}
    records.withdraw("gw-1")
    assert records.served().gateways == ()


@pytest.mark.parametrize("how", ["tunnels end", "names ban"])
def test_what_the_operator_ends_is_served_no_more(records: Records, admin: Client, how: str) -> None:
    control = Records(Settings())
    leased = records.open(opening(Grant(admin.account, "sshcr_1", ())), lease=60, most=100)
    assert [site.tunnel for site in control.served().sites] == [leased.id]
    operator.main([*how.split(), leased.id if how == "tunnels end" else NAME])
    assert control.served().sites == ()
    assert control.served().gateways == (GATEWAY,)


def test_a_backend_tunnel_is_seen_and_not_served(records: Records, admin: Client) -> None:
    asked = Opening(Grant(admin.account, "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9", labels=(("Region", "EU"),))
    leased = records.open(asked, lease=60, most=100)
    assert admin.get(f"/tunnels/{leased.id}").json["labels"] == {"Region": "EU"}
    assert records.served().sites == ()


def test_names_are_refused_for_what_they_are(records: Records, admin: Client, stranger: Client) -> None:
    mine, other = Grant(admin.account, "sshcr_1", ()), Grant(stranger.account, "sshcr_2", ())
    records.open(opening(mine), lease=60, most=100)
    with pytest.raises(NameTaken):
        records.open(opening(other), lease=60, most=100)
    again = records.open(opening(mine), lease=60, most=100)
    assert [site.tunnel for site in records.served().sites] == [again.id]
    tunnels.ban_name(NAME)
    with pytest.raises(NameBanned):
        records.open(opening(mine), lease=60, most=100)
    with pytest.raises(TooManyTunnels):
        records.open(opening(mine, "b.tunnels.localhost"), lease=60, most=0)


def test_tunnels_that_are_opened_at_once_are_no_more_than_an_account_may_have(records: Records, admin: Client) -> None:
    grant, events, between = Grant(admin.account, "sshcr_1", ()), aws.client("dynamodb").meta.events, ["b"]

    def opened(name: str) -> str:
        return records.open(opening(grant, f"{name}.tunnels.localhost"), lease=60, most=2).id

    def open_another(**_: object) -> None:
        """Open a tunnel when another opening has read how many there are."""
        if between:
            assert opened(between.pop())

    opened("a")
    events.register("after-call.dynamodb.Query", open_another)
    with pytest.raises(TooManyTunnels):
        opened("c")
    events.unregister("after-call.dynamodb.Query", open_another)
    assert [site.name for site in records.served().sites] == ["a.tunnels.localhost", "b.tunnels.localhost"]
    assert len(tunnels.online(admin.account)) == 2


@pytest.mark.parametrize(("fails", "is_opened"), [("UpdateItem", True), ("Query", False)])
def test_a_store_that_fails_once_leaves_no_tunnel_without_a_client(
    records: Records, admin: Client, fails: str, is_opened: bool
) -> None:
    events, written = aws.client("dynamodb").meta.events, []

    def fail(model: Any, **_: object) -> None:
        written.append(model.name)
        if model.name == fails and "TransactWriteItems" in written and written.count(fails) <= 2:
            raise EndpointConnectionError(endpoint_url="http://store")

    events.register("before-call.dynamodb", fail)
    with contextlib.nullcontext() if is_opened else pytest.raises(Unavailable):
        records.open(opening(Grant(admin.account, "sshcr_1", ())), lease=60, most=100)
    events.unregister("before-call.dynamodb", fail)
    assert fails in written[written.index("TransactWriteItems") :]
    assert len(tunnels.online(admin.account)) == is_opened


def test_the_certificates_of_who_has_tunnels_are_served_with_their_keys(records: Records, admin: Client) -> None:
    issued = openssl.issue(f"/CN={NAME}", extensions=(f"subjectAltName=DNS:{NAME}",))
    id = admin.create("/tls_certificates", issued.upload)["id"]
    assert records.served().certificates == ()
    records.open(opening(Grant(admin.account, "sshcr_1", ())), lease=60, most=100)
    (found,) = records.served().certificates
    assert (found.id, found.account, found.names) == (id, admin.account, (NAME,))
    pair = records.key_pair(admin.account, id)
    assert pair
    assert pair.chain == issued.certificate
    stored, uploaded = (load_pem_private_key(key.encode(), None) for key in (pair.key, issued.key))
    assert stored.public_key() == uploaded.public_key()
    assert records.key_pair(admin.account, "cert_other") is None


def test_every_edge_has_the_same_authority_for_the_hop() -> None:
    first, second = Records(Settings()).hop_authority(), Records(Settings()).hop_authority()
    assert first.to_pem() == second.to_pem()
    stored = str(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"])
    assert "PRIVATE KEY" not in stored


def test_a_store_that_is_away_is_told_as_such(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "no-such-table")
    with pytest.raises(Unavailable):
        records.served()


def fingerprint(authority: dict[str, Any]) -> str:
    command = ["ssh-keygen", "-l", "-f", "-"]
    done = subprocess.run(command, input=authority["public_key"], check=True, capture_output=True, text=True)
    return str(done.stdout).split()[1]
