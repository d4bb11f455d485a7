"""An account with resources of every kind, and with records of every class that processes write beside them."""

from collections.abc import Callable, Iterator
from typing import Any

from chalicelib import clock, ids
from chalicelib.model.accounts import key_usage
from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status
from chalicelib.model.names import issued_certificates
from chalicelib.model.sign_in import managed_apps, sessions, signing_keys
from chalicelib.model.tls import acme_accounts
from chalicelib.model.tunnels import usage
from chalicelib.model.tunnels.tunnels import Traffic
from chalicelib.storage import vault
from chalicelib.storage.client import aws, dynamodb
from edge.store import link_authority
from tests import records
from tests.modules.samples import GITHUB
from tests.samples import BEGUN, BODIES, PATHS
from tests.transports import Client

SECRET = "hunter2"


def fill(client: Client) -> dict[str, str]:
    """Create a resource of every kind in an account, and records beside them. Return their ids by path."""
    id_by_path = {
        path: str(client.create(path, body(client))["id"]) for path, body in BODIES.items() if path not in PATHS
    }
    id_by_path |= {
        path: str(client.create(begin_path(client), BODIES[path](client))["id"])
        for path, begin_path in PATHS.items()
        if path in BODIES
    }
    id_by_path |= {path: _begin(client, path, begin) for path, begin in BEGUN.items()}
    address = next(path for path in (f"/edges/https/{client.create('/edges/https', {})['id']}",))
    route = client.create(f"{address}/routes", {"match": "/signed-in", "match_type": "path_prefix"})["id"]
    assert client.put(f"{address}/routes/{route}/oauth", {"provider": {"github": GITHUB}}).status == 200
    webhook = {"provider": "GITHUB", "secret": SECRET}
    assert client.put(f"{address}/routes/{route}/webhook_verification", webhook).status == 200
    name = f"{ids.strip_prefix(ids.new('x')).lower()}.tunnels.localhost"
    edge = client.create("/edges/https", {"hostports": [f"{name}:443"]})["id"]
    edge_id = client.create("/edges/tls", {"hostports": [f"left.{name}:443"]})["id"]
    assert client.patch(f"/edges/tls/{edge_id}", {"hostports": []}).status == 200
    released = client.create("/reserved_domains", {"domain": f"released-{name}"})["id"]
    assert client.delete(f"/reserved_domains/{released}").status == 204
    _write_beside(client, edge, id_by_path)
    return {**id_by_path, "oauth": f"{address}/routes/{route}", "name": name, "edge": edge}


def write_service() -> None:
    """Write the sealed records of the service itself, which belong to no account."""
    managed_apps.set_app("github", "an app", SECRET)
    signing_keys.create("kid", 1, {}, vault.seal(b"{}", signing_keys.CONTEXT))
    acme_accounts.find_or_create("https://ca.example", lambda: b"a key")
    link_authority.read_or_create()


def scan() -> list[dict[str, Any]]:
    """Return all records of the table."""
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName=dynamodb.table_name())
    return [dynamodb.decode(item) for page in pages for item in page["Items"]]


def ciphertexts(value: Any) -> list[bytes]:
    """Return all bytes in a value that the emulated KMS made: they begin with the id of a key."""
    keys = tuple(key["KeyId"].encode() for key in aws.client("kms").list_keys()["Keys"])
    return [ciphertext for ciphertext in _bytes(value) if ciphertext.startswith(keys)]


def find_naming(text: str) -> list[tuple[str, str]]:
    """Return the keys of all records that contain a text anywhere."""
    return [(record["scope"], record["id"]) for record in scan() if text in repr(record)]


def _bytes(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict | list | tuple):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _bytes(member)
    elif isinstance(value, bytes):
        yield value


def _begin(client: Client, path: str, begin: Callable[[Client, str], str]) -> str:
    return begin(client, PATHS[path](client) if path in PATHS else path)


def _write_beside(client: Client, edge: str, id_by_path: dict[str, str]) -> None:
    """Write what the edge, the issuer and the authorizer write for an account."""
    account, now = client.account, clock.seconds()
    usage.write(account, "2026-11-22T14", "gw-1", Traffic(1, 2, 3))
    key_usage.record_denied(id_by_path["/api_keys"])
    session = sessions.Session(
        account=account,
        edge=edge,
        route="",
        provider="github",
        client_id="",
        cookie_prefix="",
        subject="1",
        signed_in_at=now,
        seen_at=now,
        checked_at=now,
        tokens=vault.seal(b"tokens", sessions.context(account)),
    )
    sessions.write(ids.new("s"), session, until=now + 600)
    certificate = ids.new("cert")
    order = {
        "url": "https://ca.example/1",
        "domain": "a.example",
        "method": "http-01",
        "certificate_id": certificate,
        "request": b"request",
        "key": vault.seal(b"key", vault.context(account, certificate)),
    }
    records.put(
        {
            "scope": issued_certificates.ORDERS,
            "id": f"{account}/{id_by_path['/reserved_domains']}",
            "body": order,
            "revision": 1,
        }
    )
    trial = {"scope": f"{account}#/edge_trials", "id": edge, "body": {"at": now}, "revision": 1}
    records.put(trial)
    records.put({"scope": f"{edge_status.HOSTS}/host/statuses", "id": f"{account}/{edge}", "body": {}, "revision": 1})
    records.put({"scope": "edge#/gateways/gw-1/tunnels", "id": id_by_path["/tunnels"], "body": {"account": account}})
    assert kinds.TUNNELS.has(id_by_path["/tunnels"])
