"""A service that is closed for changes: reads are answered, everything else is a 503."""

import pytest

from chalicelib.http import errors
from tests.transports import Client


def test_only_reads_are_answered(admin: Client, nobody: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})
    monkeypatch.setenv("READ_ONLY", "true")
    path = f"/bot_users/{bot['id']}"
    assert admin.get(path).json == bot
    refusals = [
        admin.post("/bot_users", {"name": "another"}),
        admin.patch(path, {"name": "another"}),
        admin.delete(path),
        nobody.post("/tokens", {}),
    ]
    assert {(refusal.status, refusal.headers["retry-after"], refusal.json["error_code"]) for refusal in refusals} == {
        (503, "60", "unavailable")
    }
    assert {refusal.json["msg"] for refusal in refusals} == {errors.ReadOnly().message}
    assert admin.get("/bot_users").json["bot_users"] == [bot]
    monkeypatch.setenv("READ_ONLY", "false")
    assert admin.delete(path).status == 204
