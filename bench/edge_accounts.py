"""Many accounts in the embedded cloud, each with a certificate and a tunnel or an edge.

The service writes the records of one account. The others are copies with their own ids, names and encrypted keys.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import boto3

from bench import requests
from bench.edge_certificates import make_certificate
from chalicelib import ids
from chalicelib.model.tls import tls_certificates
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.operator import accounts
from chalicelib.storage import vault
from edge.store.records import Grant, Opening
from edge.store.table import Store

_GATEWAY = "gw_bench"
_DAY = 86_400
_BATCH = 25  # items of a write
_BYTES = "bytes"  # marks encoded bytes
_TEMPLATE = "template"  # the label of the copied name, and the name of the copied account
_LEFT_OUT = re.compile("changes#|token#|acct_[^#]*#/(audit_events|users|api_keys)|(account_|user_)?name#")
_ID = re.compile(r"\b[a-z]+_[0-9A-Za-z]{27}\b")


class Accounts:
    """The accounts of a table. Account n serves the name `find_name(n)`.

    `create` creates what answers a name, such as an edge. Without it, each name has a tunnel.
    """

    def __init__(
        self, table: str, domain: str, *, prefix: str = "t", create: Callable[[str, str], None] | None = None
    ) -> None:
        self.count = 0
        self._table, self._domain, self._prefix = table, domain, prefix
        self._store = boto3.client("dynamodb")
        self._account, _, token = accounts.create_account(f"{_TEMPLATE}-{prefix}", "admin")
        self._certificate, self._key = self._create_certificate(token)
        name = f"{_TEMPLATE}-{prefix}.{domain}"
        if create:
            create(token, name)
        else:
            self._open_tunnel(name)
        self._items = json.dumps([record for record in self._scan() if self._is_copied(record)], default=_encode)
        self._ids = frozenset(_ID.findall(self._items))

    def find_name(self, number: int) -> str:
        return f"{self._label(number)}.{self._domain}"

    def add(self, count: int, *, has_keys: bool = True) -> None:
        """Add accounts until there are `count`. Without keys their certificates cannot be used."""
        items = (record for number in range(self.count, count) for record in self._copy(number, has_keys))
        while batch := list(islice(items, _BATCH)):
            self._store.batch_write_item(
                RequestItems={self._table: [{"PutRequest": {"Item": record}} for record in batch]}
            )
        self.count = count

    def _label(self, number: int) -> str:
        return f"{self._prefix}{number:06}"

    def _create_certificate(self, token: str) -> tuple[str, bytes]:
        """Create a certificate. Return its id and its private key."""
        chain, key = make_certificate(f"*.{self._domain}")
        body = {"certificate_pem": chain, "private_key_pem": key}
        id = requests.create("/tls_certificates", token, body)["id"]
        (sealed,) = tls_certificates.read_certificates(self._account.id)
        return id, tls_certificates.open_private_key(sealed)

    def _open_tunnel(self, name: str) -> None:
        gateways.announce(Gateway(_GATEWAY, "127.0.0.1", 9), lease=_DAY)
        grant, url = Grant(self._account.id, "cred_bench", ()), f"https://{name}"
        opening = Opening(grant, _GATEWAY, "ts_bench", "localhost:80", name=name, url=url)
        Store("local", self._domain).open(opening, most=10)

    def _scan(self) -> Iterator[dict[str, Any]]:
        for page in self._store.get_paginator("scan").paginate(TableName=self._table):
            yield from page["Items"]

    def _is_copied(self, item: dict[str, Any]) -> bool:
        text = json.dumps(item, default=_encode)
        is_of_account = self._account.id in text or f"{_TEMPLATE}-{self._prefix}" in text
        return is_of_account and not _LEFT_OUT.match(item["scope"]["S"])

    def _copy(self, number: int, has_keys: bool) -> list[dict[str, Any]]:
        """Return the records of a new account."""
        new_ids = {id: ids.new(id.partition("_")[0]) for id in self._ids}
        text = self._items.replace(f"{_TEMPLATE}-{self._prefix}", self._label(number))
        text = _ID.sub(lambda match: new_ids[match[0]], text)
        items: list[dict[str, Any]] = json.loads(text, object_hook=_decode)
        for sealed in (record["sealed"]["M"] for record in items if has_keys and "sealed" in record):
            context = vault.context(new_ids[self._account.id], new_ids[self._certificate])
            sealed["private_key"]["B"] = vault.seal(self._key, context)
        return items


def create_edge(token: str, name: str) -> None:
    """Create an edge with a route to an HTTP response."""
    backend = requests.create("/backends/http_response", token, {"body": "hello"})["id"]
    edge = requests.create("/edges/https", token, {"hostports": [f"{name}:443"]})["id"]
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": backend}}
    requests.create(f"/edges/https/{edge}/routes", token, route)


def _encode(value: bytes) -> dict[str, str]:
    return {_BYTES: value.hex()}


def _decode(members: dict[str, Any]) -> Any:
    return bytes.fromhex(members[_BYTES]) if _BYTES in members else members
