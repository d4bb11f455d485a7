"""Loaded names after random changes of their account, compared with a host that loads them from the records.

`RANDOM_ACCOUNTS=1000 RANDOM_SEED=7` tries that many accounts. Each has fifty changes, loads and unloads.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from chalicelib.operator import accounts
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import Place
from edge.control.names.account_names import AccountNames
from edge.control.names.loading import Loading, Outcome, find_bounds
from edge.control.names.name_builder import EnvoyNames
from edge.control.names.name_resolver import NameResolver
from edge.control.names.reads import StoreReads
from edge.envoy.ads.catalog import Name
from edge.envoy.ads.discovery import Discovery
from edge.envoy.names import scopes
from edge.envoy.resources import Kind
from edge.link.authority import KeyPair
from edge.plan.cold_reads import Answers
from edge.plan.loaded import LoadedNames
from edge.process.settings import Settings
from edge.serving.order import Sender
from edge.store.changes import Follower
from edge.store.records import Grant, Opening
from edge.store.table import TableStore
from tests import openssl
from tests.transports import Client

D = "tunnels.localhost"
HOSTS = ("one", "two", "x.team", "y.team", "*.team")
VISITED = ("one", "two", "x.team", "y.team", "z.team", "unknown")
ACCOUNTS, CHANGES = int(os.environ.get("RANDOM_ACCOUNTS", "2")), 50
SEED = int(os.environ.get("RANDOM_SEED", "1"))
FAILED_BEFORE = (3_000_029,)  # when a refused name kept the places that it had used
GATEWAY = Gateway("gw-1", "192.0.2.1", 7000)
KINDS: tuple[Kind, ...] = ("cluster", "scope", "secret")
LABELS = ({"app": "x"}, {"app": "y"})


@cache
def uploads() -> list[dict[str, str]]:
    names = ("*.tunnels.localhost", "one.tunnels.localhost", "*.team.tunnels.localhost")
    return [openssl.issue("/CN=c", extensions=(f"subjectAltName=DNS:{it}",)).upload for it in names]


class Host:
    """The names of one account on one edge host without an Envoy, so that its catalog has all that is sent."""

    def __init__(self, account: str) -> None:
        settings, self.discovery = Settings(tunnel_domain=D), Discovery(b"key")
        self.resolver, self.sender = NameResolver(D), Sender(self.discovery)
        self.resolver.refresh_gateways()
        service = Service(D, range(0), frozenset({D, f"*.{D}"}))
        operator = KeyPair("operator's chain", "operator's key")
        builder = EnvoyNames(settings, "PEM", lambda: service, lambda: operator, lambda _: None)
        self.outcomes: dict[str, Outcome] = {}
        self.runner = asyncio.Runner()
        loaded = LoadedNames(find_bounds(settings.limits))
        state = loaded, Answers(10, 100), set[Place](), lambda *_: None, self._answer, 1e9
        self.loaded, shared = loaded, Loading(self.resolver, builder, self.sender, StoreReads(2), *state)
        self.names = self.runner.run(self._make(account, shared))

    async def _make(self, account: str, shared: Loading) -> AccountNames:
        return AccountNames(account, shared)

    async def _answer(self, name: str, _account: str, outcome: Outcome, _pair: KeyPair | None) -> None:
        self.outcomes[name] = outcome

    def do(self, *acts: Callable[[], None]) -> None:
        """Start some work, one after the other, and wait until it is done."""

        async def act() -> None:
            for it in acts:
                it()
                while self.names.is_busy:
                    await asyncio.sleep(0)

        self.runner.run(act())

    def load(self, *names: str) -> None:
        self.do(*(lambda name=name: self.names.want(name) for name in names))

    def unload(self, name: str, now: float) -> None:
        for loaded in self.loaded.take_unrequested(now + 1e6):
            self.do(lambda name=loaded.name: self.names.remove_secret(name))  # type: ignore[misc]
        if self.loaded.find(name):
            self.do(lambda: self.names.unload(name))

    def resources(self, kind: Kind) -> dict[str, bytes]:
        """Return the resources of a kind, without scopes that are closed because another one replaced them."""
        catalog = self.discovery.catalog
        found = {it.name: catalog.value(Name(kind, it.name)) for it in catalog.names(kind)}
        served = {key.name for key in self.sender.scopes.values()}
        closed = {it for it in found if kind == "scope" and it not in served}
        assert all(found[it] == scopes.build_closed_scope(it).encoded for it in closed)
        return {name: value for name, value in found.items() if name not in closed}

    def close(self) -> None:
        self.runner.close()


class Owner:
    """The owner of an account, who changes its records at random."""

    def __init__(self, client: Client, chance: Random) -> None:
        self._client, self._chance = client, chance
        self._ids: dict[str, list[str]] = {}
        self._damaged: list[tuple[str, str, Any]] = []
        self._store, self._tunnels = TableStore("local", D), list[ServedTunnel]()
        self._is_on, self._writes = True, 0
        self._gateways = [GATEWAY.id]

    def change(self) -> set[Place]:
        """Change something. Return the places that the log does not name: damage is not a change of the API."""
        acts = (self._create_edge, self._delete, self._put_module, self._create_route, self._create_part)
        more = (self._patch, self._upload, self._open, self._close, self._switch, self._damage, self._repair)
        other = (self._reserve, self._restrict, self._change_policy, self._replace_gateway)
        return self._chance.choice((*acts, *acts, *more, *other))() or set()

    def repair(self) -> set[Place]:
        return {place for _ in [*self._damaged] for place in self._repair()}

    def _pick(self, *paths: str) -> tuple[str, str] | None:
        every = [(path, id) for path, ids in self._ids.items() if path.startswith(paths) for id in ids]
        return self._chance.choice(every) if every else None

    def _create(self, path: str, body: Any) -> None:
        answer = self._client.post(path, body)
        if answer.status == 201:
            self._ids.setdefault(path, []).append(answer.json["id"])

    def _create_edge(self) -> None:
        hosts = self._chance.sample(HOSTS, self._chance.choice((1, 1, 2)))
        self._create("/edges/https", {"hostports": [f"{it}.{D}:443" for it in hosts]})

    def _create_route(self) -> None:
        if edge := self._pick("/edges/https"):
            backend = self._pick("/backends")
            body = {"match_type": "path_prefix", "match": self._chance.choice(("/", "/a", "/b"))}
            module = {"backend": {"backend_id": backend[1]}} if backend else {}
            self._create(f"/edges/https/{edge[1].rpartition('/')[2]}/routes", {**body, **module})

    def _create_part(self) -> None:
        backend = self._pick("/backends")
        bodies = [("http_response", {"body": self._text()}), ("tunnel_group", {"labels": self._chance.choice(LABELS)})]
        bodies += [("weighted", {"backends": {backend[1]: 1}})] if backend else []
        path, body = self._chance.choice(bodies)
        self._create(f"/backends/{path}", body)

    def _upload(self) -> None:
        self._create("/tls_certificates", self._chance.choice(uploads()))

    def _put_module(self) -> None:
        target = self._pick("/edges/https")
        if target and target[0].endswith("/routes"):
            bodies = {"user_agent_filter": {"deny": [self._text()]}, "request_headers": {"add": {"X-A": self._text()}}}
        else:
            bodies = {"tls_termination": {"min_version": self._chance.choice(("1.0", "1.2", "1.3"))}}
        if target:
            module = self._chance.choice([*bodies])
            path = f"{target[0]}/{target[1]}/{module}"
            self._client.delete(path) if self._chance.random() < 0.3 else self._client.put(path, bodies[module])

    def _reserve(self) -> None:
        self._create("/reserved_domains", {"domain": f"{self._chance.choice(('one', 'two', '*.team', 'x.team'))}.{D}"})

    def _restrict(self) -> None:
        held, policy = self._pick("/reserved_domains"), self._pick("/ip_policies")
        if held and policy:
            path, body = f"{held[0]}/{held[1]}/ip_restriction", {"ip_policy_ids": [policy[1]]}
            self._client.delete(path) if self._chance.random() < 0.3 else self._client.put(path, body)

    def _change_policy(self) -> None:
        if policy := self._pick("/ip_policies"):
            action, last = self._chance.choice(("allow", "deny")), self._chance.randrange(256)
            rule = {"ip_policy_id": policy[1], "cidr": f"192.0.2.{last}", "action": action}
            self._client.post("/ip_policy_rules", rule)
        else:
            self._create("/ip_policies", {})

    def _patch(self) -> None:
        if found := self._pick("/backends/http_response"):
            self._client.patch(f"{found[0]}/{found[1]}", {"body": self._text()})

    def _delete(self) -> None:
        found = self._pick("/")
        if found and self._client.delete(f"{found[0]}/{found[1]}").status == 204:
            self._ids[found[0]].remove(found[1])

    def _open(self) -> None:
        name, labels = self._chance.choice([(f"{it}.{D}", {}) for it in VISITED] + [("", it) for it in LABELS])
        grant = Grant(self._client.account, "sshcr_1", ())
        opening = Opening(
            grant, self._gateways[-1], "ts_1", "up", name, f"https://{name}", labels=tuple(labels.items())
        )
        with suppress(Exception):  # taken, or of an edge
            self._tunnels.append(self._store.open(opening, most=10))

    def _close(self) -> None:
        if self._tunnels:
            self._store.close(self._tunnels.pop(self._chance.randrange(len(self._tunnels))), Traffic())

    def _replace_gateway(self) -> None:
        """End the gateway or an earlier one. Their tunnels stay, as after a crash."""
        self._store.withdraw_gateway(self._gateways.pop(self._chance.randrange(len(self._gateways))))
        self._gateways.append(f"{GATEWAY.id}-{self._chance.randrange(10**9)}")
        self._store.announce_gateway(replace(GATEWAY, id=self._gateways[-1]), lease=3600)

    def _switch(self) -> None:
        self._is_on = not self._is_on or self._chance.random() < 0.5
        accounts.switch_account(self._client.account, "on" if self._is_on else "off")

    def _damage(self) -> set[Place]:
        if (found := self._pick("/edges/https", "/backends")) is None:
            return set()
        path, id = found
        scope = items.scope(self._client.account, path)
        if any(it[:2] == (scope, id) for it in self._damaged) or (item := table.read(scope, id)) is None:
            return set()
        self._damaged.append((scope, id, item.body))
        return self._write(scope, id, self._chance.choice(("no map", {"hostports": 1, "labels": 2, "body": 3})))

    def _repair(self) -> set[Place]:
        return self._write(*self._damaged.pop()) if self._damaged else set()

    def _write(self, scope: str, id: str, body: Any) -> set[Place]:
        self._writes += 1000
        with suppress(dynamodb.ConditionFailed):  # it was deleted
            sets = {"body": body, "revision": self._writes}
            dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#id)"), sets=sets))
        return {Place(scope, id)}

    def _text(self) -> str:
        return f"text {self._chance.randrange(100)}"


def visit(host: Host, owner: Owner, chance: Random, follower: Follower) -> None:
    """Load or unload a name, or change a record and follow the log."""
    name = f"{chance.choice(VISITED)}.{D}"
    act = chance.random()
    if act < 0.3:
        host.load(name)
    elif act < 0.4:
        host.unload(name, time.monotonic())
    else:
        damaged = owner.change()
        places = {place for it in follower.read(time.time()) for place in it.places}
        places |= damaged | host.resolver.refresh_gateways()
        host.do(lambda: host.names.change(places))


def differences(host: Host, account: str) -> list[str]:
    """Return the resources that differ from those of a host that loads the same names from the records."""
    with closing(Host(account)) as fresh:
        fresh.load(*(it.name for it in host.loaded))
        found, full = ({kind: of.resources(kind) for kind in KINDS} for of in (host, fresh))
    full["secret"] = {name: it for name, it in full["secret"].items() if name in found["secret"]}
    every = [(kind, it) for kind in KINDS for it in found[kind].keys() | full[kind].keys()]
    return [f"{kind} {it}" for kind, it in every if found[kind].get(it) != full[kind].get(it)]


@pytest.mark.parametrize("number", [*(SEED * 1_000_000 + it for it in range(ACCOUNTS)), *FAILED_BEFORE])
def test_names_are_as_a_new_host_loads_them(admin: Client, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    chance = Random(number)
    store = TableStore("local", D)
    store.announce_gateway(GATEWAY, lease=3600)
    follower, owner = Follower(store.list_changes, time.time()), Owner(admin, chance)
    with closing(Host(admin.account)) as host:
        for step in range(CHANGES):
            visit(host, owner, chance, follower)
            assert differences(host, admin.account) == [], f"step {step}"
            assert "KeyError" not in capsys.readouterr().err, f"step {step}"
