"""The first requests of `te http`, which a child process sends: its errors are those of the command."""

import json
import time

from tests.cli.conftest import User
from tests.conftest import Served


def test_a_rejection_has_its_exit_code_and_its_body(admin_user: User, api: Served) -> None:
    key = admin_user.run("api-keys", "create", "--scopes", "edges:read", "--token-file", "key")
    assert key.returncode == 0, key.stderr
    token = (admin_user.home / "key").read_text().strip()
    limited = admin_user.with_settings(TE_URL=api.base_url, TE_TOKEN=token)
    result = limited.run("http", "3000", "-o", "json")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr)["error_code"] == "forbidden"


def test_a_rejected_token_is_one_sentence(user: User, api: Served) -> None:
    result = user.with_settings(TE_URL=api.base_url, TE_TOKEN="unknown").run("http", "3000", "-o", "table")
    assert (result.returncode, result.stdout) == (4, "")
    assert result.stderr.startswith("te: ")
    assert "Traceback" not in result.stderr


def test_an_unreachable_service_is_tried_three_times_only(user: User) -> None:
    start = time.monotonic()
    result = user.with_settings(TE_URL="http://127.0.0.1:9", TE_TOKEN="x").run("http", "3000")
    assert (result.returncode, result.stdout) == (5, "")
    assert result.stderr.startswith("te: http://127.0.0.1:9 is unreachable: ")
    assert time.monotonic() - start < 20


def test_without_a_sign_in_there_is_one_sentence(user: User) -> None:
    result = user.run("http", "3000")
    assert (result.returncode, result.stdout) == (4, "")
    assert result.stderr.count("\n") == 1
