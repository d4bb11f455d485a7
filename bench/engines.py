"""The engines of the figures: the embedded cloud, and filled stores (dynalite) of several sizes.

dynalite is the only emulator whose queries take constant time for any table, and that counts capacity like DynamoDB.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from bench import requests
from chalicelib import ids
from chalicelib.authorizer import authorize
from chalicelib.operator import accounts
from infra import ROOT
from infra.deploy import data_stack
from infra.deploy.templates import parse_template
from infra.local import signals
from infra.local.cloud import HOST, OWN, Cloud

TABLE = "tunnel-edge"
SIZES = (1_000, 100_000, 1_000_000)
NODE_MODULES = ROOT / "bench" / "node_modules"
# Settings that change the behaviour of the service.
_SETTINGS = (
    *("BASE_URL", "LOCALSTACK_HOST", "MEMBERS_ACT_FOR_ALL", "RECORD_FORMAT"),
    *("STRICT_REFERENCES", "VERSION_HEADERS"),
)
_PREFIX = "bkdwd"  # of the ids in the filled stores


@dataclass(frozen=True)
class Setting:
    """The input of every figure: an account's first key, its authorizer context, and the filled stores.

    `stores` has their addresses by number of items. Everything else is in the environment.
    """

    token: str
    context: dict[str, str]
    stores: dict[int, str]

    def entry(self, number: int) -> str:
        """Return the id of a list entry in a filled store. A store of n items has n / 2 entries."""
        return f"{_PREFIX}_{number:027}"


@contextmanager
def start(folder: Path, sizes: Sequence[int]) -> Iterator[Setting]:
    """Run all engines, with stores of the given sizes. The environment names the embedded cloud."""
    for name in _SETTINGS:
        os.environ.pop(name, None)
    embedded = Cloud(folder / "cloud", free_port(), PERSIST_STATE="0")
    processes: list[subprocess.Popen[str]] = []
    try:
        embedded.start()
        os.environ.update(embedded.settings, TABLE_NAME=TABLE, KEY_ID=f"alias/{TABLE}", LOG_LEVEL="INFO")
        os.environ.pop(OWN)  # with it, `make run` would start its own cloud
        data_stack.deploy(TABLE, {})
        token = accounts.create_account("bench", "admin")[2]
        requests.create("/backends/weighted", token, {})  # records the use of the key, which happens once an hour
        context = authorize({"headers": requests.headers(token)}, None)["context"]
        stores = {size: _start_store(folder / f"store-{size}", size, token, processes) for size in sizes}
        yield Setting(token, context, stores)
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        embedded.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _start_store(folder: Path, size: int, token: str, processes: list[subprocess.Popen[str]]) -> str:
    """Start a store, filled half with entries of one list and half with unique keys. Return its URL."""
    _fill(folder, size, token, processes)
    port = free_port()
    dynalite = str(NODE_MODULES / "dynalite" / "cli.js")
    _start_node(processes, dynalite, "--host", HOST, "--port", str(port), "--path", str(folder), "--createTableMs", "1")
    await_port(port)
    store = boto3.client("dynamodb", endpoint_url=f"http://{HOST}:{port}")
    store.create_table(**_definition(), BillingMode="PAY_PER_REQUEST")
    store.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})
    return f"http://{HOST}:{port}"


def _fill(folder: Path, size: int, token: str, processes: list[subprocess.Popen[str]]) -> None:
    with _start_node(processes, str(ROOT / "bench" / "seed.cjs"), str(folder), json.dumps(_definition())) as seeding:
        assert seeding.stdin
        seeding.stdin.writelines(f"{item}\n" for item in _items(size, token))
    if seeding.returncode:
        raise RuntimeError("A store could not be filled.")


def _start_node(processes: list[subprocess.Popen[str]], *arguments: str) -> subprocess.Popen[str]:
    """Start a Node.js process that ends with the engines."""
    environment = {**os.environ, "NODE_PATH": str(NODE_MODULES)}
    with signals.defer():
        node = subprocess.Popen(
            ["node", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C must not reach it
        )
        processes.append(node)
    return node


def _items(size: int, token: str) -> Iterator[str]:
    """Yield copies of an entry and a unique key with other ids, in DynamoDB's JSON.

    The service wrote the originals. The last unique key belongs to the token.
    """
    backend = requests.create("/backends/weighted", token, {"backends": {ids.new("bkdhr"): 100}})["id"]
    entry, key = _find_item(ids.strip_prefix(backend)), _find_item(token[3:30], beginning="token#")
    for number in range(size // 2):
        yield entry.replace(ids.strip_prefix(backend), f"{number:027}")
    for number in range(size // 2 - 1):
        yield key.replace(token[3:30], f"{number:027}")
    yield key


def _find_item(part: str, beginning: str = "") -> str:
    """Return the item with `part` in its key and a scope that starts with `beginning`."""
    pages = boto3.client("dynamodb").get_paginator("scan").paginate(TableName=TABLE)
    for item in (item for page in pages for item in page["Items"]):
        if part in item["scope"]["S"] + item["id"]["S"] and item["scope"]["S"].startswith(beginning):
            return json.dumps(item)
    raise LookupError(part)


def _definition() -> dict[str, Any]:
    """Return the table's keys from its deployment template."""
    properties = parse_template(data_stack.TEMPLATE.read_text())["Resources"]["Table"]["Properties"]
    keys = {key["AttributeName"] for key in properties["KeySchema"]}  # no index is measured
    attributes = [attribute for attribute in properties["AttributeDefinitions"] if attribute["AttributeName"] in keys]
    return {"TableName": TABLE, "AttributeDefinitions": attributes, "KeySchema": properties["KeySchema"]}


def await_port(port: int) -> None:
    """Wait until a port accepts connections. Raises TimeoutError after 30 seconds."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection((HOST, port), timeout=1).close()
            return
        time.sleep(0.05)
    raise TimeoutError(f"Nothing listens on port {port}.")
