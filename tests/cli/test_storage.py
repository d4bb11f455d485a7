"""Where secrets are: in the keyring or in one file, in no other file, and in no process's arguments."""

import json
import os
from pathlib import Path

import pytest

from tests.cli import issuer as issuers
from tests.cli.conftest import User
from tests.cli.issuer import OidcIssuer
from tests.conftest import Served
from tunnel_edge.errors import CommandError
from tunnel_edge.identity import files, profiles, store
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.identity.store import Secret

# A keyring in a file of the test, which can be locked, or wait for ever.
BACKEND = """
import json, os, time
from pathlib import Path
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

FILE = Path(os.environ["HOME"]) / "ring.json"

class Ring(KeyringBackend):
    priority = 9

    def entries(self):
        if os.environ.get("RING") == "locked":
            raise KeyringLocked("it is locked")
        if os.environ.get("RING") == "waits":
            time.sleep(60)
        return json.loads(FILE.read_text()) if FILE.exists() else {}

    def get_password(self, service, username):
        return self.entries().get(service)

    def set_password(self, service, username, password):
        FILE.write_text(json.dumps({**self.entries(), service: password}))

    def delete_password(self, service, username):
        FILE.write_text(json.dumps({key: it for key, it in self.entries().items() if key != service}))
"""


@pytest.fixture
def with_keyring(user: User) -> User:
    """Return a user with a keyring."""
    folder = user.home / "modules"
    folder.mkdir()
    (folder / "ring.py").write_text(BACKEND)
    return user.with_settings(PYTHONPATH=str(folder), PYTHON_KEYRING_BACKEND="ring.Ring")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TE_CONFIG_DIR", str(tmp_path / "te"))
    return tmp_path / "te"


def test_a_keyring_stores_the_token_and_a_refresh_token_renews_it(
    with_keyring: User, served: Served, issuer: OidcIssuer
) -> None:
    admin = served.client()
    owner = admin.get("/me").json["owner"]["id"]
    fields = {"issuer": issuer.url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {"scopes": ["backends:read"], "sign_in": {"client_id": issuers.CLIENT}}
    credential = admin.create("/federated_credentials", {**fields, **more})["id"]
    issuer.state.sends_refresh_tokens = True
    result = with_keyring.run("login", served.base_url, credential, "--device")
    issuer.state.sends_refresh_tokens = False
    assert result.returncode == 0, result.stderr
    assert "The token is stored in: keyring, entry te:default\n" in result.stderr
    ring = with_keyring.home / "ring.json"
    entry = json.loads(json.loads(ring.read_text())["te:default"])
    assert entry["refresh_token"]
    other_files = [file for file in with_keyring.home.rglob("*") if file.is_file() and file != ring]
    assert [file for file in other_files if entry["token"].encode() in file.read_bytes()] == []
    assert admin.delete(f"/api_keys/{entry['id']}").status == 204
    me = with_keyring.run("whoami")
    assert me.returncode == 0, me.stderr
    assert json.loads(me.stdout)["key"]["id"] != entry["id"]
    assert json.loads(me.stdout)["storage"] == "keyring, entry te:default"
    assert with_keyring.run("logout", "--end").returncode == 0
    assert json.loads(ring.read_text()) == {}


def test_a_locked_keyring_is_one_sentence(with_keyring: User, api: Served) -> None:
    with_keyring.login(api)
    locked = with_keyring.with_settings(RING="locked").run("whoami", "-o", "table")
    sentence = "te: The keyring did not answer for te:default: it is locked. Unlock the keyring.\n"
    assert (locked.returncode, locked.stdout, locked.stderr) == (4, "", sentence)
    failure = with_keyring.with_settings(PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring").run("whoami")
    assert (failure.returncode, failure.stderr.count("\n")) == (4, 1)


@pytest.fixture
def without_certificate(with_keyring: User, api: Served) -> User:
    """Return a user whose certificate must be renewed, with a key that is in the keyring."""
    with_keyring.login(api)
    authority = api.client().create("/ssh_certificate_authorities", {})["id"]
    login = with_keyring.run("ssh", "login", "--authority", authority, "--principal", "ada", "--file")
    assert login.returncode == 0, login.stderr
    for file in (with_keyring.home / ".local/state/te/ssh").iterdir():
        file.unlink()
    return with_keyring


@pytest.mark.parametrize(
    ("keyring", "sentence"),
    [
        ("waits", "The certificate could not be renewed within 5 seconds."),
        ("locked", "The keyring did not answer for te:default: it is locked. Unlock the keyring."),
    ],
)
def test_a_keyring_that_does_not_answer_delays_a_connection_little(
    without_certificate: User, keyring: str, sentence: str
) -> None:
    result = without_certificate.with_settings(RING=keyring).run("ssh", "ensure", "host", "ada", timeout=20)
    assert (result.returncode, result.stderr) == (1, f"te: {sentence}\n")


@pytest.mark.parametrize("is_silent", [False, True])
def test_an_issuer_that_does_not_answer_delays_a_connection_little(
    without_certificate: User, api: Served, issuer: OidcIssuer, other_issuer: str, is_silent: bool
) -> None:
    admin, url = api.client(), issuer.url if is_silent else other_issuer
    owner = admin.get("/me").json["owner"]["id"]
    fields = {"issuer": url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {"scopes": ["backends:read"], "sign_in": {"client_id": issuers.CLIENT}}
    credential = admin.create("/federated_credentials", {**fields, **more})["id"]
    home = without_certificate.home
    with (home / ".config/te/config.toml").open("a") as config:
        config.write(f'federated = "{credential}"\n')
    entry = json.loads(json.loads((home / "ring.json").read_text())["te:default"])
    expired_entry = {**entry, "expires_at": "2020-01-01T00:00:00Z", "lifetime": "60", "refresh_token": "refresh"}
    (home / "ring.json").write_text(json.dumps({"te:default": json.dumps(expired_entry)}))
    if is_silent:
        issuer.state.may_answer.clear()
    try:
        result = without_certificate.run("ssh", "ensure", "host", "ada", timeout=20)
    finally:
        issuer.state.may_answer.set()
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    expected = (
        "te: The certificate could not be renewed within 5 seconds."
        if is_silent
        else f"te: The issuer is unreachable at {url}"
    )
    assert result.stderr.startswith(expected)


def test_the_token_is_in_one_file(admin_user: User, api: Served) -> None:
    admin_user.run("whoami")
    admin_user.run("api", "GET", "/nowhere")
    files = [file for file in admin_user.home.rglob("*") if file.is_file() and api.token in file.read_text()]
    assert files == [admin_user.home / ".local/state/te/credentials/default"]
    folders = [folder for folder in admin_user.home.rglob("te") if folder.is_dir()]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_an_unreadable_credentials_file_counts_as_absent(home: Path) -> None:
    for content in (b"", b"{", b"[]", b"\xff", b'{"token": 1}', b'{"token": "x", "more": "y"}'):
        files.write_private(home / "credentials" / "default", content)
        assert store.load("default", store.FILE) is None


def test_a_file_never_has_a_refresh_token(home: Path) -> None:
    store.save("default", store.FILE, Secret("token", refresh_token="refresh"))
    assert store.load("default", store.FILE) == Secret("token")
    assert b'refresh"' not in (home / "credentials" / "default").read_bytes().replace(b'"refresh_token"', b"")


def test_a_file_of_another_user_is_rejected(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    store.save("default", store.FILE, Secret("token"))
    os.chown(home / "credentials" / "default", 1, 1)
    with pytest.raises(CommandError, match="belongs to another user") as error:
        store.load("default", store.FILE)
    assert error.value.code == 4


def test_a_profile_is_read_as_it_was_written(home: Path) -> None:
    profile = Profile(
        "work", url="https://h", owner='a"b\\c\x7f\n', principals=("ada", "b,c"), lifetime=3600, uses_files=True
    )
    profiles.save(profile)
    profiles.save(Profile("other", url="https://o"))
    assert profiles.load_all() == [Profile("other", url="https://o"), profile]
    assert profiles.choose_name() == "work"


@pytest.mark.parametrize("text", ["[", "[profiles.work]\nurl = 1\n", "[profiles.work]\nname = 'x'\n", "\x00"])
def test_a_malformed_profile_is_named(home: Path, text: str) -> None:
    files.write_private(home / "config.toml", text.encode())
    with pytest.raises(CommandError, match=r"config\.toml"):
        profiles.load("work")


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "-x", "a b", "x" * 65])
def test_a_name_of_a_profile_is_no_path(name: str) -> None:
    with pytest.raises(CommandError) as error:
        profiles.choose_name(name)
    assert error.value.code == 2
