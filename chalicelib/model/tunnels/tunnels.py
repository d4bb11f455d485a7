"""Tunnels (SPEC 2.8): stored types, opening, renewing and closing.

A tunnel is online while its gateway is live. A tunnel that has no gateway, or that an earlier version opened, has a
separate lease in its own record. No two tunnels have the same name. A new tunnel takes the name from an existing tunnel
if the same credential opened both. Otherwise, the name is free only after the existing tunnel has ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from chalicelib import clock, ids
from chalicelib.model.audit import details, trail
from chalicelib.model.audit.details import Details
from chalicelib.model.audit.trail import Trail
from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Ending, Stored
from chalicelib.model.changes import Change
from chalicelib.model.names import base_names, histories, special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.tunnels import ends, gateways
from chalicelib.model.tunnels.gateways import GATEWAYS
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import change_log, direct_writes, items, table, unique_keys, writes
from chalicelib.storage.records.change_log import ItemKey
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

Proto = Literal["http", "https", "tcp", "tls"]


@dataclass(frozen=True, kw_only=True)
class StoredTunnel(Stored):
    """The stored fields of both kinds of tunnel. References to other resources are ids.

    `metadata_0` is the metadata that API version 0 shows: clients can set it separately from `metadata`. `gateway`
    serves the tunnel. `credential` is the SSH credential or user certificate that opened the tunnel. `address` is the
    IP address of the SSH client, and `client` its version. The API does not show `gateway`, `credential`, `address` and
    `client`. Audit events show the last three.
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
    """A tunnel with a public endpoint.

    `proxy_protocol` is copied from the reservation of the name or port when the tunnel is opened. `ip_policies` are the
    ids of IP policies that the client named. The API does not show these two fields.
    """

    endpoint: str
    proto: Proto
    public_url: str
    proxy_protocol: bool = False
    ip_policies: list[str] = field(default_factory=list)

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_record().items() if value or name != "ip_policies"}


@dataclass(frozen=True, kw_only=True)
class BackendTunnel(StoredTunnel):
    """A tunnel for tunnel groups. It belongs to every group for which it has all labels."""

    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class EitherTunnel(StoredTunnel):
    """A tunnel of either kind, as audit events show it."""

    public_url: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    AUDITED = ("credential", "public_url", "labels", "address", "client")

    def audited_fields(self) -> dict[str, Any]:
        url = urlsplit(self.public_url)
        return {**super().audited_fields(), "name": url.netloc if url.scheme == "tcp" else url.hostname}

    @classmethod
    def find_lease(cls, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        gateway = attributes.get("gateway")
        return (GATEWAYS, gateway) if gateway and isinstance(gateway, str) else None

    @classmethod
    def end_lease(cls, lease: Mapping[str, Any] | None) -> Sequence[Write] | None:
        return gateways.end_lease(lease)

    @classmethod
    def ending(cls, item: Item, lease: Mapping[str, Any] | None = None) -> Ending:
        now = clock.seconds()
        end = min(ends.lease_end(item, lease) or now, now)
        writes = (*ends.record_end(item, end), *ends.unlist(item), *ends.remove_from_gateway(item))
        return Ending(ends.describe_duration(item, end), writes)


def decode(item: Item) -> AgentTunnel | BackendTunnel:
    """Return the tunnel of an item. Raises MalformedRecord."""
    is_of_backends = "labels" in item.body
    return records.decode(BackendTunnel, item) if is_of_backends else records.decode(AgentTunnel, item)


@dataclass(frozen=True)
class Traffic:
    """The traffic of a tunnel, counted by its gateway.

    `bytes_in` came from visitors, `bytes_out` from the SSH client. `requests` counts each HTTP/1 request, and one for
    each connection of another protocol.
    """

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.bytes_in - other.bytes_in, self.bytes_out - other.bytes_out, self.requests - other.requests)

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.bytes_in + other.bytes_in, self.bytes_out + other.bytes_out, self.requests + other.requests)


class EdgeHasName(Exception):
    """An edge of the account has the tunnel's name as a hostport.

    The tunnel is refused, so that no visitor can bypass the modules of the edge.
    """


@dataclass(frozen=True)
class ServedTunnel:
    """A tunnel as its gateway serves it.

    A backend tunnel has labels and the name "". The name of a TCP tunnel is its address, host:port. With
    `proxy_protocol`, the service behind the tunnel receives the visitor's address at the start of each connection.
    `expires` is the Unix second at which the separate lease ends, or 0 without such a lease. Comparisons ignore
    `expires`. `ip_policies` and the reservation of the name restrict visitors.
    """

    account: str
    id: str
    gateway: str
    name: str
    expires: int = field(default=0, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    proto: Proto = "https"
    proxy_protocol: bool = False
    ip_policies: tuple[str, ...] = ()

    def has_lapsed(self, now: float) -> bool:
        """Return whether the tunnel's separate lease is over at a Unix time. Return False without such a lease."""
        return 0 < self.expires <= now


def open_tunnel(
    account: str,
    tunnel: AgentTunnel | BackendTunnel,
    *,
    lease: int | None = None,
    name: str = "",
    checks: Iterable[Write] = (),
    by: Trail = trail.EDGE,
) -> str:
    """Store a tunnel and return its id. The tunnel is online while its gateway is live, or for `lease` seconds.

    `name` is its host name or address, "" for none. `checks` are condition checks for the transaction of a tunnel with
    a name. Raises EdgeHasName, aws.Unavailable, the exception of a failed check, and Taken if the name belongs to
    another account, to a tunnel of another credential or to the operator.
    """
    id = ids.new(kinds.TUNNELS.prefix)
    started_at = ids.time_of(id)
    body = {**tunnel.to_record(), "started_at": started_at, "client": details.clean(tunnel.client)}
    successor = f"{account}/{tunnel.credential}" if tunnel.credential else ""
    attributes = {"account": account, "id": id, "gateway": tunnel.gateway}
    key = UniqueKey(base_names.KIND, name, attributes, successor=successor)
    until = None if lease is None else clock.seconds() + lease
    item = Item(scope(account), id, body, unique_keys=(key,) if name else (), lease=until)
    change = Change(by).put(item).add(*histories.record_tunnel(name, account, id, body))
    if tunnel.gateway:
        carried = {"account": account, "name": name, **_gateway_fields(tunnel)}
        change = change.put(Item(ends.gateway_scope(tunnel.gateway), id, carried, lease=until))
    if name:
        listened = base_names.listening_key(account, hostport_of(name)).scope
        free = Condition("attribute_not_exists(#id)")
        change = change.add(Write.check(listened, unique_keys.ID, free, EdgeHasName()), *checks)
        change = change.add(*list_special(item, name))
    change.commit()
    return id


def list_special(item: Item, name: str) -> list[Write]:
    """Return the write that adds a tunnel to the list of special names.

    Special names are those that Envoy must know before a visitor comes: ports, and hosts with TLS upstream.
    """
    is_special = name and item.body.get("proto") in ("tcp", "tls")
    owner = SpecialOwner(item.account, item.id)
    return [special_names.add(SpecialEntry(owner, (hostport_of(name),)))] if is_special else []


def _gateway_fields(tunnel: AgentTunnel | BackendTunnel) -> dict[str, Any]:
    """Return the fields of a tunnel's record in its gateway's list that depend on the kind of tunnel."""
    if isinstance(tunnel, BackendTunnel):
        return {"labels": tunnel.labels}
    named = {"ip_policies": tunnel.ip_policies} if tunnel.ip_policies else {}
    return {"proto": tunnel.proto, "proxy_protocol": tunnel.proxy_protocol, **named}


def renew_lease(account: str, id: str, *, lease: int) -> bool:
    """Renew the lease of a tunnel to `lease` seconds from now. Return False if the tunnel is not online.

    A lease that is over cannot be renewed: open another tunnel. Raises aws.Unavailable.
    """
    return direct_writes.renew(scope(account), id, lease=clock.seconds() + lease)


def close_tunnel(account: str, id: str, *, usage: Traffic | None = None, by: Trail = trail.EDGE) -> bool:
    """Close a tunnel and release its name. Return False if it has no record. Raises aws.Unavailable.

    Only the gateway that serves the tunnel passes the final `usage`.
    """
    change = Change(by)

    def attempt() -> bool:
        item = table.find(scope(account), id)
        if item:
            end = clock.seconds()
            end_writes = (*ends.record_end(item, end), *ends.unlist(item), *ends.remove_from_gateway(item))
            change.remove(item, details=_describe_end(item, end, usage)).add(*end_writes).commit()
        return item is not None

    return writes.retry(attempt)


def record_refusal(tunnel: ServedTunnel, reason: str) -> None:
    """Store the reason why an edge host does not serve a tunnel, and notify the tunnel's gateway.

    `reason` is "" if the host serves the tunnel again. Do nothing if the tunnel has ended. Raises aws.Unavailable.
    """
    exists = Condition("attribute_exists(#id)")
    refusal = {"body.refusal": reason}
    write = Write.update(ends.gateway_scope(tunnel.gateway), tunnel.id, exists, sets=refusal)
    with suppress(TransactionFailed):
        dynamodb.transact([write, change_log.entry_of(ItemKey(scope(tunnel.account), tunnel.id))])


def read_refusal(tunnel: ServedTunnel) -> str:
    """Return the reason why an edge host does not serve a tunnel, or "". Raises aws.Unavailable."""
    record = dynamodb.get(ends.gateway_scope(tunnel.gateway), tunnel.id)
    return str(record["body"].get("refusal", "")) if record else ""


def close_other(account: str, name: str) -> bool:
    """Close the tunnel that has a name, unless the tunnel belongs to `account`.

    Return whether a tunnel was closed. Raises aws.Unavailable.
    """
    owner = table.look_up(base_names.KIND, name) or {}
    return owner.get("account", account) != account and close_tunnel(owner["account"], owner["id"])


def hostport_of(name: str) -> str:
    """Return the hostport for the name of a tunnel. The name of a TCP tunnel already is a hostport."""
    return name if ":" in name else f"{name}:443"


def _describe_end(item: Item, end: int, usage: Traffic | None) -> Details:
    """Return the event details of a tunnel's time online and usage."""
    return {**ends.describe_duration(item, end), **trail.details_of(asdict(usage) if usage else {})}


def gateway_of(item: Item) -> str:
    """Return the id of the gateway of a tunnel, "" if it is unknown. The tunnel's record can be malformed."""
    gateway = item.body.get("gateway")
    return gateway if isinstance(gateway, str) else ""


def scope(account: str) -> str:
    return items.scope(account, kinds.TUNNELS.path)
