"""What was revoked since the time that a table was restored to: `python -m chalicelib revocations`."""

from pathlib import Path
from typing import Any

import pytest

from chalicelib import crypto, ids
from chalicelib.model.ssh import credentials
from chalicelib.model.ssh import revoked as ssh_revoked
from chalicelib.operator import accounts, owners, suspensions
from tests import samples
from tests.live.ssh import krls
from tests.live.ssh.keygen import Certificate
from tests.operator.commands import Output, expect_failure, run_without_errors
from tests.operator.restored import LATER, Tables
from tests.transports import Answer, Client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the list is kept between the two commands."""
    return tmp_path / "revoked.txt"


def repeat_revocations(output: Output, file: Path, lines: list[str]) -> list[str]:
    file.write_text("".join(f"{line}\n" for line in lines))
    return run_without_errors(output, "revocations", "repeat", str(file))


def test_what_was_revoked_since_the_time_of_a_restored_table_is_listed_and_revoked_again(
    admin: Client, stranger: Client, tables: Tables, capsys: Output, file: Path
) -> None:
    bots = {name: admin.create("/bot_users", {"name": name})["id"] for name in ("kept", "deleted", "inactive")}
    idle = admin.create("/bot_users", {"name": "idle", "active": False})["id"]
    keys = {name: admin.create("/api_keys", {"owner_id": id}) for name, id in bots.items()}
    leaked = admin.create("/api_keys", {"description": f"two\n{stranger.account} lines"})
    owned, lost = (
        admin.create("/ssh_credentials", {"public_key": key, "owner_id": owner})
        for key, owner in ((samples.public_key(), bots["deleted"]), (samples.public_key(), ""))
    )
    tables.remember()
    admin.delete(f"/api_keys/{leaked['id']}")
    admin.delete(f"/ssh_credentials/{lost['id']}")
    admin.delete(f"/bot_users/{bots['deleted']}")
    admin.patch(f"/bot_users/{bots['inactive']}", {"active": False})
    admin.patch(f"/bot_users/{bots['kept']}", {"name": "renamed"})
    stranger.create("/api_keys", {})
    tables.restore()

    def list_allowed() -> dict[str, bool]:
        entering = {**keys, "leaked": leaked}
        into = {name: admin.with_token(key["token"]).get("/api_keys").status == 200 for name, key in entering.items()}
        dials = {
            name: credentials.find_by_fingerprint(crypto.public_keys.fingerprint(credential["public_key"])) is not None
            for name, credential in (("owned", owned), ("lost", lost))
        }
        return {**into, **dials, "stranger": stranger.get("/api_keys").status == 200}

    assert set(list_allowed().values()) == {True}
    lines = [
        f'{admin.account} {leaked["id"]} "{admin.user}" "two\\n{stranger.account} lines"',
        f'{admin.account} {lost["id"]} "{admin.user}" ""',
        f'{admin.account} {bots["inactive"]} "inactive"',
        f'{admin.account} {bots["deleted"]} "deleted"',
    ]
    listing = sorted(run_without_errors(capsys, "revocations", "list", LATER), key=lines.index)
    assert listing == lines
    assert set(list_allowed().values()) == {True}
    assert repeat_revocations(capsys, file, []) == []
    assert repeat_revocations(capsys, file, listing[:1]) == [f"{leaked['id']} is revoked"]
    assert [name for name, may in list_allowed().items() if not may] == ["leaked"]
    assert repeat_revocations(capsys, file, listing) == [
        f"{leaked['id']} is not there",
        *(f"{id} is revoked" for id in (lost["id"], bots["inactive"], bots["deleted"])),
    ]
    assert [name for name, may in list_allowed().items() if may] == ["kept", "stranger"]
    assert run_without_errors(capsys, "revocations", "list", LATER) == []
    assert admin.get(f"/bot_users/{idle}").json["active"] is False
    assert admin.post("/ssh_credentials", {"public_key": lost["public_key"]}).status == 201


def test_users_and_accounts_that_were_switched_off_since_are_switched_off_again(
    admin: Client, stranger: Client, member: Client, tables: Tables, capsys: Output, file: Path
) -> None:
    tables.remember()
    owners.switch_owner(admin.account, member.user, "off")
    accounts.switch_account(stranger.account, "off")
    tables.restore()
    assert [client.get("/api_keys").status for client in (admin, member, stranger)] == [200, 200, 200]
    lines = [f'{admin.account} {member.user} "member"', f'{stranger.account} {stranger.account} "other"']
    listing = sorted(run_without_errors(capsys, "revocations", "list", LATER), key=lines.index)
    assert listing == lines
    assert repeat_revocations(capsys, file, listing) == [f"{id} is revoked" for id in (member.user, stranger.account)]
    assert [client.get("/api_keys").status for client in (admin, member, stranger)] == [200, 401, 401]


def test_accounts_and_credentials_that_were_suspended_since_are_listed(
    admin: Client, stranger: Client, tables: Tables, capsys: Output
) -> None:
    credential = admin.create("/ssh_credentials", {"public_key": samples.public_key()})
    early = admin.create("/ssh_credentials", {"public_key": samples.public_key()})
    suspensions.suspend_id(early["id"])
    tables.remember()
    suspensions.suspend_id(credential["id"])
    suspensions.suspend_id(stranger.account)
    tables.restore()
    assert sorted(run_without_errors(capsys, "revocations", "list", LATER)) == sorted(
        [f'{admin.account} {credential["id"]} "{admin.user}" ""', f'{stranger.account} {stranger.account} "other"']
    )


class Fetched:
    """The list that servers fetch, and the keys that `ssh-keygen` finds revoked by it."""

    def __init__(self, nobody: Client, folder: Path) -> None:
        self._nobody, self._folder = nobody, folder

    def krl(self, authority: str) -> Answer:
        path = f"/ssh_certificate_authorities/{authority}/krl"
        return self._nobody.send("GET", path, Accept="application/octet-stream", Service_Version="")

    def holds(self, *certificates: Any) -> list[bool]:
        answers = [self.krl(certificate["ssh_certificate_authority_id"]) for certificate in certificates]
        return [
            answer.status == 200 and krls.is_revoked(self._folder, answer.content, certificate["certificate"])
            for answer, certificate in zip(answers, certificates, strict=True)
        ]


@pytest.mark.needs("ssh")
def test_what_ssh_authorities_revoked_since_is_listed_and_revoked_again(
    admin: Client, nobody: Client, tables: Tables, capsys: Output, file: Path, tmp_path: Path
) -> None:
    def certify(authority: Any, kind: str = "user", **fields: Any) -> Any:
        body = {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}
        return admin.create(f"/ssh_{kind}_certificates", {**body, **fields})

    def revoke(authority: Any, **subject: str) -> Any:
        return admin.create(f"/ssh_certificate_authorities/{authority['id']}/revocations", subject)

    servers = Fetched(nobody, tmp_path)
    authority, deleted_authority = (admin.create("/ssh_certificate_authorities", {}) for _ in range(2))
    earlier, deleted, host, lost, active = (
        certify(authority, kind) for kind in ("user", "user", "host", "user", "user")
    )
    orphan = certify(deleted_authority)
    admin.delete(f"/ssh_certificate_authorities/{deleted_authority['id']}")
    admin.delete(f"/ssh_user_certificates/{earlier['id']}")
    tables.remember()
    admin.delete(f"/ssh_user_certificates/{deleted['id']}")
    admin.delete(f"/ssh_user_certificates/{orphan['id']}")
    revoke(authority, ssh_host_certificate_id=host["id"], reason="given up")
    revoke(authority, public_key=lost["public_key"], reason='a "laptop"\nwas stolen')
    new = admin.create("/ssh_certificate_authorities", {"private_key_type": "ecdsa"})
    unknown = certify(new)
    revoke(new, serial=str(Certificate.of(unknown["certificate"]).serial))
    certificates = (deleted, orphan, host, lost, unknown)
    before = servers.krl(authority["id"])
    assert servers.holds(*certificates, earlier, active) == [*[True] * 6, False]

    tables.restore()
    assert servers.holds(*certificates, earlier, active) == [*[False] * 5, True, False]
    fingerprint = crypto.public_keys.fingerprint(authority["public_key"])
    assert ssh_revoked.find_certificate(fingerprint, deleted["id"]) is not None
    listing = run_without_errors(capsys, "revocations", "list", LATER)
    assert len(listing) == len(certificates)
    assert {line.split()[0] for line in listing} == {admin.account}
    lines = repeat_revocations(capsys, file, listing)
    assert all(line.endswith(" is revoked") for line in lines)
    assert f"{authority['id']} {crypto.public_keys.fingerprint(lost['public_key'])} is revoked" in lines
    assert servers.holds(*certificates, earlier, active) == [*[True] * 6, False]
    assert ssh_revoked.find_certificate(fingerprint, deleted["id"]) is None
    assert servers.krl(authority["id"]).headers["etag"] != before.headers["etag"]
    revocations = list(admin.all(f"/ssh_certificate_authorities/{authority['id']}/revocations", "revocations"))
    assert {revocation.get("reason") for revocation in revocations} >= {"given up", 'a "laptop"\nwas stolen'}
    assert {revocation.get("ssh_user_certificate_id") for revocation in revocations} >= {deleted["id"], earlier["id"]}
    assert repeat_revocations(capsys, file, listing) == lines
    assert run_without_errors(capsys, "revocations", "list", LATER) == []


def test_a_table_that_cannot_tell_what_was_revoked_is_refused_and_nothing_is_listed(
    admin: Client, tables: Tables, capsys: Output
) -> None:
    itself = (
        "Both tables are tunnel-edge: set TABLE_NAME to the name of the restored table, "
        "and compare it with the table that was used before."
    )
    assert expect_failure("revocations", "list", "tunnel-edge") == itself
    assert (
        expect_failure("revocations", "list", LATER)
        == f"The table {LATER} cannot be read (ResourceNotFoundException): check its name, region and your permissions."
    )
    tables.restore()  # to before there was anything
    assert run_without_errors(capsys, "revocations", "list", LATER) == []
    tables.swap()
    sentence = (
        f"The table {LATER} is not a later state of the restored table: it lacks the account {admin.account}. "
        "Name the table that was used until the restore."
    )
    assert expect_failure("revocations", "list", LATER) == sentence
    assert capsys.readouterr().out == ""
    assert admin.get("/api_keys").status == 200


@pytest.mark.parametrize(
    "line",
    [
        "acct_",
        "{account}",
        "{account} cert_{id}",
        "{account} sshca_{id}",
        "{account} sshca_{id} []",
        '{account} sshca_{id} {{"serial": "0"}}',
        "{key} {account}",
        "{account} {key}x",
    ],
)
def test_a_list_with_a_line_that_names_nothing_is_refused_before_anything_is_revoked(
    admin: Client, file: Path, line: str
) -> None:
    key = admin.create("/api_keys", {})["id"]
    wrong = line.format(account=admin.account, key=key, id=ids.strip_prefix(key))
    file.write_text(f"{admin.account} {key}\n{wrong}\n")
    assert (
        expect_failure("revocations", "repeat", str(file))
        == f"This is not a line of 'revocations list': {wrong!r}. Nothing was revoked."
    )
    assert admin.get(f"/api_keys/{key}").status == 200
