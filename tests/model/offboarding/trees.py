"""Trees of keys in tests, and calls that offboard them."""

from typing import Any

import pytest

from chalicelib import clock
from tests.samples import public_key
from tests.transports import Client

KEYS, AUTHORITIES, CERTIFICATES = "/api_keys", "/ssh_certificate_authorities", "/ssh_user_certificates"


def build_request(authority: str, **fields: Any) -> dict[str, Any]:
    return {"ssh_certificate_authority_id": authority, "public_key": public_key(), **fields}


def child(client: Client, **fields: Any) -> Client:
    """Return a client with a key that the client's key makes."""
    return client.with_token(client.create(KEYS, fields)["token"])


def key_of(client: Client) -> str:
    return f"ak_{client.token[3:30]}"


def offboard(client: Client, path: str, **choice: str) -> Any:
    answer = client.post(f"{path}/offboard", choice)
    assert answer.status == 200, answer.text
    return answer.json


def advance_clock(monkeypatch: pytest.MonkeyPatch, seconds: int = 30) -> None:
    """Let the service believe that some seconds have passed."""
    read_seconds = clock.seconds
    monkeypatch.setattr(clock, "seconds", lambda: read_seconds() + seconds)
