"""docs/costs.md says what is counted here: each row of its tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from bench import calls, costs, units
from bench.costs import MONTH, Units, counted
from chalicelib import clock
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.names import bans
from chalicelib.model.names import proof_checks as due_checks
from chalicelib.model.tunnels import blocks, gateways, tunnels, usage
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from chalicelib.operator import accounts
from chalicelib.storage.records import change_log, items
from chalicelib.storage.records.change_log import Change, ItemKey
from edge.control import control, proof_checks, statuses
from edge.control.names.name_resolver import NameResolver
from edge.process.settings import Limits
from edge.ssh import gateway, rights_checks
from edge.ssh.usage import billing
from edge.store import control_records
from edge.store.changes import Follower
from edge.store.records import Grant, Opening
from edge.store.table import Store
from infra import ROOT
from tests.federation import exchanges
from tests.samples import BODIES, public_key
from tests.transports import Client

PAGE = (ROOT / "docs" / "costs.md").read_text()
HTTPS = {"hostports": ["app.example.com:443"]}
STORE = Store("local", "tunnels.localhost")
HERE = Gateway("gw-1", "192.0.2.1", 7000)


def assert_on_page(rows: list[str]) -> None:
    """Require that these rows, and no others, are the table of the page that has the first of them."""
    name = rows[0].split(" | ")[0]
    tables = [table.splitlines()[2:] for table in PAGE.split("\n\n") if table.startswith("| ")]
    assert [table for table in tables if table[0].split(" | ")[0] == name] == [rows], "\n".join(["", *rows])


def post(client: Client, path: str, body: Any) -> Units:
    return counted(lambda: client.create(path, body))


def ask(client: Client, method: str, path: str, body: Any = None) -> Units:
    def act() -> None:
        assert client.send(method, path, body).status < 300

    return counted(act)


def measure_exchanges(admin: Client, monkeypatch: pytest.MonkeyPatch, authority: str) -> dict[str, Units]:
    """Return the units of exchanges whose issuer's keys are cached."""
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        key, person = (
            issuer.credential(admin)["id"],
            issuer.credential(admin, owner_claim="email", provision=True)["id"],
        )
        signer = issuer.credential(admin, scopes=[f"ssh_user_certificates:create@{authority}"])["id"]
        email = {"email": "ada@example.com", "email_verified": True}
        job = "repo:acme/a-site-with-a-name:environment:production"  # its event takes more than 1 KiB for any port
        certificate = {"ssh_certificate_authority_id": authority, "public_key": public_key(), "principals": ["ada"]}
        cases = {
            "exchange a token for a key": (key, issuer.token(key), {}),
            "exchange a token for a key of the user whom a claim names": (person, issuer.token(person, **email), {}),
            "exchange a token for a certificate": (signer, issuer.token(signer, sub=job), {"certificate": certificate}),
        }

        def act(credential: str, token: str, more: dict[str, Any]) -> None:
            assert exchanges.exchange(admin, token, credential, **more).status == 200

        for case in cases.values():  # the first ones fetch keys and create the user
            act(*case)
        return {name: counted(partial(act, *case)) for name, case in cases.items()}


def test_requests(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    backends, users = "/backends/http_response", {"owner_id": admin.user}
    backend = f"{backends}/{admin.create(backends, {})['id']}"
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    signing = {"ssh_certificate_authority_id": authority, "public_key": public_key()}
    for _ in range(100):
        admin.create("/ssh_user_certificates", {**signing, "public_key": public_key()})
    listed = ask(admin, "GET", "/ssh_user_certificates?limit=100")
    size = len(admin.get("/ssh_user_certificates?limit=100").content) // 1000
    credential = {**BODIES["/ssh_credentials"](admin), **users}
    edge = admin.create("/edges/https", HTTPS)["id"]
    tls = BODIES["/tls_certificates"](admin)
    edge_status.announce("host-1", lease=60)
    exchanging = measure_exchanges(admin, monkeypatch, authority)
    assert_on_page(
        [
            costs.request_row("get one", ask(admin, "GET", backend)),
            costs.request_row("list 100 certificates", listed, seconds=0.08, sent_kb=size),
            costs.request_row("get the status of an edge", ask(admin, "GET", f"/edges/https/{edge}/status")),
            costs.request_row("list the gateways", ask(admin, "GET", "/gateways")),
            costs.request_row("create a backend", post(admin, backends, {})),
            costs.request_row("change a backend", ask(admin, "PATCH", backend, {"description": "changed"})),
            costs.request_row("delete a backend", ask(admin, "DELETE", backend)),
            costs.request_row("create a bot", post(admin, "/bot_users", {"name": "bot"})),
            costs.request_row("create an API key", post(admin, "/api_keys", users)),
            costs.request_row("create an SSH credential", post(admin, "/ssh_credentials", credential)),
            costs.request_row("create an SSH authority", post(admin, "/ssh_certificate_authorities", {})),
            costs.request_row("sign a certificate", post(admin, "/ssh_user_certificates", signing), seconds=0.02),
            *(costs.request_row(name, units, seconds=0.02) for name, units in exchanging.items()),
            costs.request_row("upload a TLS certificate", post(admin, "/tls_certificates", tls)),
            costs.request_row("reserve a domain", post(admin, "/reserved_domains", {"domain": "a.tunnels.localhost"})),
        ]
    )


def make_opening(account: str, name: str = "demo.tunnels.localhost") -> Opening:
    grant = Grant(account, "sshcr_" + "0" * 27, ("*",))
    return Opening(grant, HERE.id, "ts_1", "http://localhost:80", name, f"https://{name}", address="192.0.2.9")


def close(tunnel: ServedTunnel) -> None:
    tunnels.close_tunnel(tunnel.account, tunnel.id, usage=Traffic(1, 2, 3))


def test_a_tunnel(admin: Client) -> None:
    gateways.announce(HERE, lease=60)
    opened_tunnels = []
    opened = counted(lambda: opened_tunnels.append(STORE.open(make_opening(admin.account), most=100)))
    checked = counted(lambda: STORE.find_unpermitted([(opened_tunnels[0], make_opening(admin.account))]))
    usage.write(admin.account, "2026-11-23T10", HERE.id, Traffic(1, 2, 2))
    used = counted(lambda: usage.write(admin.account, "2026-11-23T10", HERE.id, Traffic(1, 2, 3)))
    closed = counted(lambda: close(opened_tunnels.pop()))
    port = replace(make_opening(admin.account, "tunnels.localhost:20001"), proto="tcp")
    port_opened = counted(lambda: opened_tunnels.append(STORE.open(port, most=100)))
    port_closed = counted(lambda: close(opened_tunnels.pop()))
    sweeps = MONTH / Limits().rights_sweep
    assert_on_page(
        [
            costs.row("A tunnel is opened", opened),
            costs.row("A gateway checks the rights of a tunnel", checked),
            costs.row("A gateway writes the usage of an account", used),
            costs.row("A tunnel is closed", closed),
            costs.row("A tunnel with a port or TLS passthrough is opened", port_opened),
            costs.row("A tunnel with a port or TLS passthrough is closed", port_closed),
        ]
    )
    assert_on_page(
        [
            costs.row("A tunnel is online and idle", checked.times(sweeps), count=1),
            costs.row("An account has traffic all the time", used.times(MONTH / billing._WRITE_PERIOD), count=1),
        ]
    )


def test_an_edge(admin: Client) -> None:
    edges = "/edges/https"
    created = post(admin, edges, HTTPS)
    special = post(admin, "/edges/tls", {"hostports": ["tls.example.com:443"]})
    edge = admin.get(edges).json["https_edges"][0]["id"]
    route = post(admin, f"{edges}/{edge}/routes", {"match_type": "path_prefix", "match": "/"})
    changed = ask(admin, "PATCH", f"{edges}/{edge}", {"description": "changed"})
    resolver = NameResolver("tunnels.localhost")
    records = []

    visited = admin.create(edges, {"hostports": ["app.tunnels.localhost:443"]})["id"]

    def load(host: str) -> None:
        records.append(resolver.read(resolver.find_account(host), host, None))

    loaded = counted(lambda: load("app.tunnels.localhost"))
    item_key = ItemKey(items.scope(admin.account, edges), visited)
    read = counted(lambda: resolver.read_changed(records[0], [item_key]))

    def try_edge() -> None:
        resolver.read_items(admin.account, [visited], None)
        edge_status.write_trial(admin.account, visited, Report(1, "2026-11-23T10:00:00Z", "host-1"))

    tried = counted(try_edge)
    assert_on_page(
        [
            costs.row("An HTTPS edge is created, with one hostport", created),
            costs.row("A TLS or TCP edge is created", special),
            costs.row("A route is added", route),
            costs.row("An edge is changed", changed),
            costs.row("An edge host loads a name for a visitor", loaded),
            costs.row("An edge host reads a changed edge", read),
            costs.row("An edge host tests a changed edge", tried),
            costs.row("An HTTPS edge is deleted, with a route", ask(admin, "DELETE", f"{edges}/{edge}")),
        ]
    )


def monthly_units(seconds: float, act: Callable[[], object]) -> Units:
    """Return the units of a month in which something is done every so many seconds."""
    return counted(act).times(MONTH / seconds)


def test_an_edge_host(admin: Client) -> None:
    gateways.announce(HERE, lease=60)
    edge_status.announce("host-1", lease=60)
    now = clock.seconds()

    def renew_host() -> None:
        edge_status.announce("host-1", lease=statuses._LEASE)
        edge_status.remove_expired_hosts(grace=statuses._GRACE)

    rows = {
        "control process: log of changes": monthly_units(control.POLL, lambda: change_log.read_since(now)),
        "control process: blocks and bans": monthly_units(control._BLOCKS_PERIOD, control_records.read_blocks),
        "control process: proof checks": monthly_units(
            proof_checks._POLL, lambda: due_checks.find_due(now, proof_checks._MAX_READ)
        ),
        "control process: gateways": monthly_units(control._GATEWAYS_PERIOD, gateways.list_gateways),
        "control process: lease": monthly_units(
            statuses._RENEWAL_PERIOD,
            renew_host,
        ),
        "gateway: log of changes": monthly_units(rights_checks._POLL, lambda: change_log.read_since(now)),
        "gateway: blocks and bans": monthly_units(
            gateway._BLOCKS_PERIOD, lambda: (blocks.list_networks(), bans.list_patterns())
        ),
        "gateway: lease": monthly_units(Limits().lease / 3, lambda: gateways.renew(HERE.id, lease=60)),
    }
    total = sum(rows.values(), Units())
    assert_on_page([costs.row(name, cost, count=1) for name, cost in {**rows, "**host, altogether**": total}.items()])


@dataclass
class BusyLog:
    """A log with 200 changes a second, each of `size` bytes. It counts the units of its reads."""

    size: int = 0
    now: float = 0.0
    read: int = 0

    def list_changes(self, since: float) -> list[Change]:
        moments = range(math.ceil(since * 200), math.floor(self.now * 200) + 1)
        self.read += 4 * math.ceil(len(moments) / 4 * self.size / 4096)  # four shards
        return [Change(f"{moment * 5:013}-{moment}", ()) for moment in moments]


def units_of_busy_log(poll: float, size: int) -> Units:
    """Return the units of a month in which a busy log is read every `poll` seconds."""
    start, period = 1000.0, 60.0
    log = BusyLog(size=size)
    follower = Follower(log.list_changes, start)
    for number in range(int(period / poll)):
        log.now = start + number * poll
        follower.read(log.now)
    return Units(reads=log.read).times(MONTH / period)


def test_a_busy_log_of_changes(admin: Client) -> None:
    with calls.recording() as recording:
        admin.create("/edges/https", HTTPS)
    (transaction,) = (call for call in recording if call.operation == "TransactWriteItems")
    puts = (action["Put"]["Item"] for action in transaction.parameters["TransactItems"] if "Put" in action)
    (entry,) = (item for item in puts if item["scope"]["S"].startswith("changes#"))
    size, _ = units.of(calls.Call("dynamodb", "Query", {}, {"Items": [entry] * 4096}))  # units of 4096 entries: bytes
    assert_on_page(
        [
            costs.row("The control process reads the log", units_of_busy_log(control.POLL, size), count=1),
            costs.row("The gateway reads the log", units_of_busy_log(rights_checks._POLL, size), count=1),
        ]
    )


def test_an_account(admin: Client) -> None:
    created = counted(lambda: accounts.create_account("acme", "alice"))
    switched = counted(lambda: accounts.switch_account(admin.account, "off"))
    first = costs.row("An account is created, with a user and a key", created)
    assert_on_page([first, costs.row("An account is switched off", switched)])
