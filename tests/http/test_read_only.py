"""A service that is closed for changes: reads are answered, everything else is a 503."""

import pytest

from chalicelib.http import errors
from tests.transports import Client


def test_only_reads_are_answered(admin: Client, nobody: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})
    monkeypatch.setenv("READ_ONLY", "true")
    path = f"/bot_users/{bot['id']}"
    assert admin.get(path).json == bot
    refused = [
        admin.post("/bot_users", {"name": "another"}),
        admin.patch(path, {"name": "another"}),
        admin.delete(path),
        nobody.post("/tokens", {}),
    ]
    assert {(it.status, it.headers["retry-after"], it.json["error_code"]) for it in refused} == {
        (503, "60", "unavailable")
    }
    assert {it.json["msg"] for it in refused} == {errors.ReadOnly().message}
    assert admin.get("/bot_users").json["bot_users"] == [bot]
    monkeypatch.setenv("READ_ONLY", "false")
    assert admin.delete(path).status == 204
