"""Tunnels that are online (SPEC 2.8): opened, renewed and closed by tunnel servers through the functions here.

A tunnel is online while its lease runs: one that its server does not renew is gone at once. Its name is a unique key,
which the same credential takes over at once, and anybody when the tunnel is gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from chalicelib import clock, ids
from chalicelib.model import audit, changes, details, histories, kinds, names, records, tunnel_ends
from chalicelib.model.audit import Trail
from chalicelib.model.changes import Change
from chalicelib.model.details import Details
from chalicelib.model.kinds import EDGE
from chalicelib.model.records import Ending, Stored
from chalicelib.storage import change_log, dynamodb, items, table, unique_keys, writes
from chalicelib.storage.change_log import Place
from chalicelib.storage.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

GATEWAYS = items.scope(EDGE, "/gateways")  # a record's revision grows whenever what it carries may have changed
Proto = Literal["http", "https", "tcp", "tls"]


@dataclass(frozen=True, kw_only=True)
class StoredTunnel(Stored):
    """The stored form of both kinds of tunnel; other resources are named by their ids.

    `metadata_0` is what API version 0 shows as metadata: there it came from another option of the agent. `gateway` is
    what carries it, `credential` the SSH credential or user certificate that opened it, `address` and `client` those of
    the SSH client, and its version: the API shows none of them, its audit events all but the gateway.
    """

    started_at: str = ""
    tunnel_session: str
    region: str
    forwards_to: str
    metadata: str = ""
    metadata_0: str = ""
    gateway: str = ""
    credential: str = ""
    address: str = ""
    client: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentTunnel(StoredTunnel):
    """A tunnel with an ephemeral endpoint of its own.

    `proxy_protocol`, which the API does not show, is that of the reservation of its name or port when it was opened.
    """

    endpoint: str
    proto: Proto
    public_url: str
    proxy_protocol: bool = False


@dataclass(frozen=True, kw_only=True)
class BackendTunnel(StoredTunnel):
    """A tunnel that serves the tunnel group backends whose labels it carries, all of them."""

    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class EitherTunnel(StoredTunnel):
    """A tunnel of either kind, as audit events tell of it."""

    public_url: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    AUDITED = ("credential", "public_url", "labels", "address", "client")

    def audited_fields(self) -> dict[str, Any]:
        url = urlsplit(self.public_url)
        return {**super().audited_fields(), "name": url.netloc if url.scheme == "tcp" else url.hostname}

    @classmethod
    def ending(cls, item: Item) -> Ending:
        end = min(tunnel_ends.lease_end(item), clock.seconds())
        writes = (*tunnel_ends.record_end(item, end), *tunnel_ends.remove_from_gateway(item))
        return Ending(tunnel_ends.describe_duration(item, end), writes)


def decode(item: Item) -> AgentTunnel | BackendTunnel:
    """Return the tunnel that an item holds. Raises MalformedRecord."""
    is_of_backends = "labels" in item.body
    return records.decode(BackendTunnel, item) if is_of_backends else records.decode(AgentTunnel, item)


@dataclass(frozen=True)
class Traffic:
    """The traffic of a tunnel, as its gateway counted it.

    `bytes_in` came from visitors and `bytes_out` from the SSH client. `requests` are those of HTTP/1; a connection of
    another protocol counts as one.
    """

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.bytes_in - other.bytes_in, self.bytes_out - other.bytes_out, self.requests - other.requests)

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.bytes_in + other.bytes_in, self.bytes_out + other.bytes_out, self.requests + other.requests)


class EdgeHasName(Exception):
    """An edge of the account listens there: what its modules ask of visitors holds for all of them."""


@dataclass(frozen=True)
class ServedTunnel:
    """A tunnel as its gateway carries it. The name of a backend tunnel is "", and others have no labels.

    The name of a tunnel of TCP is its address, host:port. With `proxy_protocol`, what it leads to reads the visitor's
    address first. `expires` is the Unix second at which its lease ends; two that differ in nothing else are the same.
    """

    account: str
    id: str
    gateway: str
    name: str
    expires: int = field(default=0, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    proto: Proto = "https"
    proxy_protocol: bool = False

    @property
    def is_live(self) -> bool:
        return self.expires > clock.seconds()


def open_tunnel(
    account: str,
    tunnel: AgentTunnel | BackendTunnel,
    *,
    lease: int,
    name: str = "",
    checks: Iterable[Write] = (),
    by: Trail = audit.EDGE,
) -> str:
    """Bring a tunnel online for `lease` seconds under a name or port, if it has one and `checks` hold; return its id.

    Raises Taken when another account, a tunnel of another credential or the operator has the name; EdgeHasName; what
    the failing of a check means; aws.Unavailable.
    """
    id = ids.new(kinds.TUNNELS.prefix)
    started_at = clock.rfc3339(ids.created_at(id))
    body = {**tunnel.to_record(), "started_at": started_at, "client": details.cleaned(tunnel.client)}
    successor = f"{account}/{tunnel.credential}" if tunnel.credential else ""
    key = UniqueKey(names.KIND, name, {"account": account, "id": id}, successor=successor)
    until = clock.seconds() + lease
    item = Item(scope(account), id, body, unique_keys=(key,) if name else (), lease=until)
    change = Change(by).put(item).also(*histories.record_tunnel(name, account, id, body))
    if tunnel.gateway:
        carried = {"account": account, "name": name, **_gateway_fields(tunnel)}
        change = change.put(Item(tunnel_ends.gateway_scope(tunnel.gateway), id, carried, lease=until))
    if name:
        listened = names.listening_key(account, hostport_of(name)).scope
        free = Condition("attribute_not_exists(#id)")
        change = change.also(Write.check(listened, unique_keys.ID, free, EdgeHasName()), *checks)
    change.commit()
    return id


def _gateway_fields(tunnel: AgentTunnel | BackendTunnel) -> dict[str, Any]:
    """Return the fields of a carried tunnel's record that its kind alone has."""
    if isinstance(tunnel, BackendTunnel):
        return {"labels": tunnel.labels}
    return {"proto": tunnel.proto, "proxy_protocol": tunnel.proxy_protocol}


def renew_lease(account: str, id: str, *, lease: int) -> bool:
    """Keep a tunnel online for `lease` seconds from now; False when it is not online any more. Raises aws.Unavailable.

    A tunnel whose lease ran out cannot be renewed: it has been seen as gone. Open another.
    """
    return table.renew(scope(account), id, lease=clock.seconds() + lease)


def renew_leases(tunnels: Sequence[ServedTunnel], *, lease: int) -> frozenset[str]:
    """Keep tunnels of a gateway online for `lease` seconds from now; return the ids of those that are not any more.

    Raises aws.Unavailable.
    """
    places = [
        place
        for it in tunnels
        for place in ((scope(it.account), it.id), (tunnel_ends.gateway_scope(it.gateway), it.id))
    ]
    return frozenset(id for _, id in table.renew_all(places, lease=clock.seconds() + lease))


def close_tunnel(
    account: str, id: str, *, gateway: str = "", usage: Traffic | None = None, by: Trail = audit.EDGE
) -> bool:
    """Take a tunnel offline, its name with it; False when it was not online. Raises aws.Unavailable.

    `gateway` is what carries it, announces that afterwards, and knows its `usage`; whoever is not that gateway leaves
    both out.
    """
    change = Change(by)
    if gateway:  # it stops being served first
        changes.delete(change, tunnel_ends.gateway_scope(gateway), id)
    elif (item := table.find(scope(account), id)) and (gateway := _gateway_of(item)):
        changes.delete(change, tunnel_ends.gateway_scope(gateway), id)
        table.touch(GATEWAYS, gateway)

    def attempt() -> bool:
        item = table.find(scope(account), id)
        if item:
            end = clock.seconds()
            change.remove(item, details=_describe_end(item, end, usage)).also(
                *tunnel_ends.record_end(item, end)
            ).commit()
        return item is not None

    return writes.retried(attempt)


def record_refusal(tunnel: ServedTunnel, reason: str) -> None:
    """Note why an edge host does not serve a tunnel, "" where it does after all, for its gateway, which hears of it.

    Nothing is noted of a tunnel that has ended. Raises aws.Unavailable.
    """
    scope, exists = tunnel_ends.gateway_scope(tunnel.gateway), Condition("attribute_exists(#id)")
    noted = Write.update(scope, tunnel.id, exists, sets={"body.refusal": reason})
    with suppress(TransactionFailed):
        dynamodb.transact([noted, change_log.entry_of(Place(scope(tunnel.account), tunnel.id))])


def read_refusal(tunnel: ServedTunnel) -> str:
    """Return why an edge host does not serve a tunnel, "" where nothing is noted. Raises aws.Unavailable."""
    record = dynamodb.get(tunnel_ends.gateway_scope(tunnel.gateway), tunnel.id)
    return str(record["body"].get("refusal", "")) if record else ""


def close_other(account: str, name: str) -> bool:
    """Take the tunnel offline that another account has at a name; False where there is none. Raises aws.Unavailable."""
    found = table.look_up(names.KIND, name) or {}
    return found.get("account", account) != account and close_tunnel(found["account"], found["id"])


def hostport_of(name: str) -> str:
    """Return the hostport on which a tunnel's name, or its address of TCP, is served: an edge may have it instead."""
    return name if ":" in name else f"{name}:443"


def _describe_end(item: Item, end: int, usage: Traffic | None) -> Details:
    """Return the further details of the event of a tunnel's end: how long it was online, and its usage."""
    return {**tunnel_ends.describe_duration(item, end), **details.of(asdict(usage) if usage else {})}


def _gateway_of(item: Item) -> str:
    """Return the gateway that carries a tunnel, also a malformed one; "" if its record does not say it."""
    gateway = item.body.get("gateway")
    return gateway if isinstance(gateway, str) else ""


def scope(account: str) -> str:
    return items.scope(account, kinds.TUNNELS.path)
