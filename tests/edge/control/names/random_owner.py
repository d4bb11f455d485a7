"""The owner of an account, who changes its records at random, and an operator, who acts on all accounts."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from chalicelib.model.base import kinds
from chalicelib.model.tunnels import gateways, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel
from chalicelib.operator import accounts, networks
from chalicelib.operator import names as operator_names
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import ItemKey
from edge.store import gateway_records
from edge.store.records import Grant, Opening
from tests import openssl
from tests.edge.control.names.random_host import PORTS, STORE, D
from tests.modules.samples import SAMPLES
from tests.proving import prove
from tests.transports import Client

OWN = "shop.example"
HOSTS = (*(f"{it}.{D}" for it in ("one", "two", "x.team", "y.team", "*.team")), OWN, f"www.{OWN}", f"*.{OWN}")
VISITED = (*(f"{it}.{D}" for it in ("one", "two", "x.team", "y.team", "z.team", "unknown")), OWN, f"www.{OWN}")
TUNNELS = tuple(it for it in VISITED if f".team.{D}" not in it)  # a gateway accepts one label below D
ADDRESSES = tuple(f"{D}:{port}" for port in PORTS)
GATEWAY = Gateway("gw-1", "192.0.2.1", 7000)
LABELS = ({"app": "x"}, {"app": "y"})
_GROUPS, _RESPONSES, _WEIGHTED = "/backends/tunnel_group", "/backends/http_response", "/backends/weighted"
_PARTS = (
    *(_GROUPS, _RESPONSES, _WEIGHTED, "/tls_certificates", "/certificate_authorities"),
    *("/ip_policies", "/ip_policy_rules"),
)
_EDGES = {"/edges/https": HOSTS, "/edges/tls": HOSTS, "/edges/tcp": ADDRESSES}
_REFERENCES = {
    "backend_id": "/backends",
    "ip_policy_ids": "/ip_policies",
    "certificate_authority_ids": "/certificate_authorities",
}


@cache
def uploads() -> list[dict[str, str]]:
    names = (f"*.{D}", f"one.{D}", f"*.team.{D}", OWN, f"*.{OWN}")
    return [openssl.issue("/CN=c", extensions=(f"subjectAltName=DNS:{it}",)).upload for it in names]


@cache
def authorities() -> list[str]:
    every = (openssl.issue(f"/CN={it}", extensions=("basicConstraints=critical,CA:TRUE",)) for it in "ab")
    return [it.certificate for it in every]


def _holder(module: str) -> str:
    """Return a text for the kind of item that has the module with this path."""
    return re.sub("{[^}]*}|edg[a-z]+_[^/]*", "*", module.rpartition("/")[0])


class Owner:
    """The owner of an account, whose `client` has all rights. `ids` has the ids of the account's items by path."""

    def __init__(self, client: Client, chance: Random) -> None:
        self.client, self.ids, self._chance = client, dict[str, list[str]](), chance
        self._damaged: list[tuple[str, str, Any, int]] = []  # with the bodies before, and the revisions after
        self._tunnels, self._writes = list[ServedTunnel](), 0
        self._is_on = True
        for path in (*_PARTS, "/reserved_domains"):
            self._create(path, self._draw(path))

    def change(self, gateway: str) -> set[ItemKey]:
        """Change something. Return the item keys that the log does not name: damage is not a change of the API."""
        self._gateway = gateway
        often = (self._create_edge, self._create_route, self._put_module, self._put_module, self._open, self._patch)
        acts = (*often, *often, self._create_part, self._prove, self._delete, self._close, self._damage, self._repair)
        act = self._chance.choice((*acts, *acts, self._switch))
        return act() or set()

    @property
    def edges(self) -> list[str]:
        return [id for path in _EDGES for id in self.ids.get(path, ())]

    def _pick(self, *paths: str) -> tuple[str, str] | None:
        """Choose an item below one of some paths. Return its path and id."""
        every = [(path, id) for path, ids in self.ids.items() if path.startswith(paths) for id in ids]
        return self._chance.choice(every) if every else None

    def _pick_id(self, *paths: str) -> str | None:
        found = self._pick(*paths)
        return found[1] if found else None

    def _create(self, path: str, body: Any) -> None:
        answer = self.client.post(path, {it: value for it, value in body.items() if value is not None})
        if answer.status == 201:
            self.ids.setdefault(path, []).append(answer.json["id"])

    def _create_edge(self) -> None:
        path = self._chance.choice(("/edges/https", "/edges/https", "/edges/https", *_EDGES))
        backend = self._pick_id(_GROUPS) if path != "/edges/https" else None
        body = {"hostports": self._hostports(path), "backend": {"backend_id": backend} if backend else None}
        ends = "upstream" if path == "/edges/https" and self._chance.random() < 0.1 else None
        self._create(path, {**body, "terminate_at": ends})

    def _hostports(self, path: str) -> list[str]:
        hosts = self._chance.sample(_EDGES[path], self._chance.choice((1, 1, 2)))
        return hosts if path == "/edges/tcp" else [f"{it}:443" for it in hosts]

    def _create_route(self) -> None:
        if edge := self._pick_id("/edges/https"):
            backend = self._pick_id("/backends")
            body = {"match_type": self._chance.choice(("path_prefix", "exact_path")), "match": self._path()}
            path = f"/edges/https/{edge}/routes"
            if kinds.identify(edge) is kinds.HTTPS_EDGES:
                self._create(path, {**body, "backend": {"backend_id": backend} if backend else None})

    def _path(self) -> str:
        return self._chance.choice(("/", "/a", "/b"))

    def _create_part(self) -> None:
        """Create a record that edges, routes and tunnels use."""
        path = self._chance.choice((*_PARTS, "/reserved_domains", "/reserved_domains", "/reserved_addrs"))
        self._create(path, self._draw(path))

    def _draw(self, path: str) -> dict[str, Any]:
        chance, backend = self._chance, self._pick_id("/backends")
        rule = {"ip_policy_id": self._pick_id("/ip_policies"), "cidr": f"192.0.2.{chance.randrange(256)}"}
        bodies: dict[str, dict[str, Any]] = {
            _RESPONSES: {"body": self._text(), "status_code": chance.choice((200, 404))},
            _GROUPS: {"labels": chance.choice(LABELS)},
            _WEIGHTED: {"backends": {backend: chance.choice((0, 1, 9))} if backend else {}},
            "/tls_certificates": chance.choice(uploads()),
            "/certificate_authorities": {"ca_pem": chance.choice(authorities())},
            "/ip_policy_rules": {**rule, "action": chance.choice(("allow", "deny"))},
            "/reserved_domains": {"domain": chance.choice(HOSTS), "certificate_id": self._pick_id("/tls_certificates")},
        }
        return bodies.get(path, {})

    def _put_module(self) -> None:
        """Replace or delete a module, with the values of a sample and references to the account's items."""
        found = self._pick(*(f"{it}/" for it in _EDGES)) or self._pick(*_EDGES, "/reserved_")
        if self._chance.random() < 0.5:
            found = self._pick(*_EDGES, "/reserved_")
        every = [it for it in SAMPLES if found and _holder(it) == _holder(f"{found[0]}/{{}}/")]
        if not found or not every:
            return
        template = self._chance.choice(every)
        name = template.rpartition("/")[2]
        path = f"{found[0]}/{found[1]}/{name}"
        if self._chance.random() < 0.2:
            self.client.delete(path)
            return
        sample = self._chance.choice(SAMPLES[template]).request
        values = {key: self._refer(key) if key in _REFERENCES else value for key, value in sample.items()}
        if name == "tls_termination":
            values |= {"min_version": self._chance.choice(("1.0", "1.2", "1.3"))}
        if name == "traffic_policy":
            rule = {"expressions": [f"conn.client_ip == '192.0.2.{self._chance.randrange(9)}'"]}
            values |= {"value": json.dumps({"inbound": [{**rule, "actions": [{"type": "deny"}]}]})}
        self.client.put(path, {**values, "enabled": self._chance.random() < 0.8})

    def _refer(self, field: str) -> Any:
        found = self._pick_id(_GROUPS if field == "backend_id" and self._chance.random() < 0.7 else _REFERENCES[field])
        return [found] if field.endswith("s") else found

    def _patch(self) -> None:
        if (found := self._pick("/")) is None:
            return
        path, id = found
        rare = {"cidr": f"198.51.100.{self._chance.randrange(256)}", "keep_headers": self._chance.choice(([], ["X-A"]))}
        if path in _EDGES:
            body: dict[str, Any] = {"hostports": self._hostports(path)}
        elif path.endswith("/routes"):
            body = {"match": self._path()}
        else:
            fixed = ("domain", "ca_pem", "certificate_pem", "private_key_pem", "ip_policy_id", "action")
            body = {key: rare.get(key, it) for key, it in self._draw(path).items() if key not in fixed}
            body |= {"keep_headers": rare["keep_headers"]} if path == "/reserved_domains" else {}
        self.client.patch(f"{path}/{id}", {key: value for key, value in body.items() if value is not None})

    def _delete(self) -> None:
        found = self._pick("/")
        if found and self.client.delete(f"{found[0]}/{found[1]}").status == 204:
            self.ids[found[0]].remove(found[1])
            self.ids.pop(f"{found[0]}/{found[1]}/routes", None)

    def _prove(self) -> None:
        """Let a check of a domain succeed or fail."""
        if id := self._pick_id("/reserved_domains"):
            with suppress(ValueError, AssertionError):  # no check is due, or another account has the domain
                prove(id, self._chance.choice(("verified", "verified", "lapsing", "lapsed")))

    def _open(self) -> None:
        protos: list[Proto] = ["https", "https", "tls"]
        named: list[tuple[str, Proto]] = [(it, self._chance.choice(protos)) for it in TUNNELS]
        name, proto = self._chance.choice([*named, *((it, "tcp") for it in ADDRESSES), ("", "https"), ("", "https")])
        labels = {} if name else self._chance.choice(LABELS)
        grant = Grant(self.client.account, "sshcr_1", ())
        opening = Opening(
            grant, self._gateway, "ts_1", "up", name, f"https://{name}", proto=proto, labels=tuple(labels.items())
        )
        with suppress(Exception):  # taken, banned, or of an edge
            self._tunnels.append(STORE.open(opening, most=10))

    def _close(self) -> None:
        if self._tunnels:
            tunnel = self._tunnels.pop(self._chance.randrange(len(self._tunnels)))
            tunnels.close_tunnel(tunnel.account, tunnel.id)

    def _switch(self) -> None:
        self._is_on = not self._is_on or self._chance.random() < 0.5
        accounts.switch_account(self.client.account, "on" if self._is_on else "off")

    def _damage(self) -> set[ItemKey]:
        """Store a malformed record of any kind."""
        if (found := self._pick("/")) is None:
            return set()
        path, id = found
        edge = path.split("/")[3] if path.endswith("/routes") else ""
        scope = items.scope(self.client.account, path) if not edge else f"{self.client.account}#{path}"
        if any(it[:2] == (scope, id) for it in self._damaged) or (item := table.read(scope, id)) is None:
            return set()
        self._damaged.append((scope, id, item.body, self._writes + 1000))
        broken = {"hostports": 1, "labels": 2, "body": 3, "match": 4, "backends": 5, "domain": 6, "chain": 7, "cidr": 8}
        body = self._chance.choice(("no map", broken, {**item.body, **broken}))
        return self._write(scope, id, body, Condition("attribute_exists(#id)"))

    def _repair(self) -> set[ItemKey]:
        """Restore a damaged record, unless it was changed since: its former body may name a host that is free now."""
        if not self._damaged:
            return set()
        scope, id, body, revision = self._damaged.pop()
        return self._write(scope, id, body, Condition("#revision = :before", {"before": revision}))

    def _write(self, scope: str, id: str, body: Any, condition: Condition) -> set[ItemKey]:
        self._writes += 1000
        try:
            dynamodb.do(Write.update(scope, id, condition, sets={"body": body, "revision": self._writes}))
        except dynamodb.ConditionFailed:
            return set()
        return {ItemKey(scope, id)}

    def _text(self) -> str:
        return f"text {self._chance.randrange(100)}"


class Operator:
    """The operator, who bans names, blocks networks and replaces gateways. `gateway` is the id of the newest one."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._gateways, self._banned, self._blocked = chance, [GATEWAY.id], list[str](), list[str]()
        gateways.announce(GATEWAY, lease=3600)

    @property
    def gateway(self) -> str:
        return self._gateways[-1]

    def act(self) -> None:
        self._chance.choice((self._replace_gateway, self._drain_gateway, self._ban, self._block))()

    def _replace_gateway(self) -> None:
        """End the gateway or an earlier one. Their tunnels stay, as after a crash."""
        gateway_records.withdraw_gateway(self._gateways.pop(self._chance.randrange(len(self._gateways))))
        self._announce()

    def _announce(self) -> None:
        self._gateways.append(f"{GATEWAY.id}-{self._chance.randrange(10**9)}")
        gateways.announce(replace(GATEWAY, id=self.gateway), lease=3600)

    def _drain_gateway(self) -> None:
        gateways.change(replace(GATEWAY, id=self._chance.choice(self._gateways), draining=True))
        self._announce()

    def _ban(self) -> None:
        if self._banned and self._chance.random() < 0.6:
            operator_names.allow_name(self._banned.pop())
        elif free := [it for it in (f"*team.{D}", f"z.team.{D}", "*shop*") if it not in self._banned]:
            self._banned.append(self._chance.choice(free))
            operator_names.ban_name(self._banned[-1])

    def _block(self) -> None:
        if self._blocked and self._chance.random() < 0.6:
            networks.unblock_network(self._blocked.pop())
        elif (network := f"203.0.113.{self._chance.randrange(256)}/32") not in self._blocked:
            self._blocked.append(networks.block_network(network))
