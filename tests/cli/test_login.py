"""Sign-in with an API key: what is stored, where, and what is rejected."""

import json
import stat

from tests.cli.conftest import User
from tests.conftest import Served


def test_a_key_is_verified_and_stored_for_its_owner_only(user: User, api: Served) -> None:
    result = user.run("login", api.base_url, "--key", stdin=f"{api.token}\n")
    assert result.returncode == 0, result.stderr
    stored = user.home / ".local/state/te/credentials/default"
    assert result.stderr == f"The token is stored in: {stored}\n"
    assert json.loads(result.stdout)["key"]["scopes"] == ["*"]
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.parent.stat().st_mode) == 0o700
    assert api.token not in (user.home / ".config/te/config.toml").read_text()

    me = json.loads(user.run("whoami").stdout)
    assert (me["profile"], me["url"], me["storage"]) == ("default", api.base_url, str(stored))


def test_a_file_that_others_can_read_is_rejected(admin_user: User) -> None:
    stored = admin_user.home / ".local/state/te/credentials/default"
    stored.chmod(0o640)
    result = admin_user.run("whoami")
    assert (result.returncode, result.stderr) == (
        4,
        f"te: Other users can read {stored}. Permit only yourself: chmod 600 '{stored}'\n",
    )


def test_logout_deletes_the_token_and_with_end_the_key(admin_user: User, api: Served) -> None:
    result = admin_user.run("logout", "--end")
    assert result.returncode == 0, result.stderr
    assert list((admin_user.home / ".local/state/te/credentials").iterdir()) == []
    assert admin_user.run("whoami").returncode == 4
    second_result = admin_user.with_settings(TE_URL=api.base_url, TE_TOKEN=api.token).run("whoami")
    assert second_result.returncode == 4


def test_a_token_goes_to_the_service_of_its_profile_only(admin_user: User) -> None:
    result = admin_user.with_settings(TE_URL="http://127.0.0.1:9").run("whoami")
    assert result.returncode == 4
    assert "set TE_TOKEN" in result.stderr


def test_a_token_is_no_argument(user: User, api: Served) -> None:
    result = user.run("login", api.base_url, "--key", api.token)
    assert result.returncode == 2
