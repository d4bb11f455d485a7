"""Names below TUNNEL_DOMAIN and ports of TCP_PORTS: each is one account's, for all that the account has under it.

The unit is the label directly left of the domain: `team.D` stands for x.team.D and *.team.D too. It has one record, a
shared key of the storage. How many names an account has is counted in a record of its own.
"""

import os
from collections.abc import Iterable, Sequence
from functools import cache

from chalicelib import clock, domains, ids
from chalicelib.model import kinds
from chalicelib.model.kinds import EDGE, Kind
from chalicelib.model.listening import HOSTPORTS as HOSTPORTS
from chalicelib.storage import dynamodb, items, table, unique_keys
from chalicelib.storage.dynamodb import SCHEMA, Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken, UniqueKey

KIND = "tunnel_name"
MAX_NAMES = 1000  # of one account: reserved, of its edges, and resting
RESTS = 24 * 60 * 60  # seconds for which a name stays its account's when its reservation is deleted
# What the operator keeps; below "cname" lie the targets of domains that are elsewhere.
KEPT = frozenset({"www", "api", "admin", "mail", "ns", "localhost", "edge", "gateway", "tunnel", "tunnels", "cname"})
KEPT_SENTENCE = "'{}' is kept by the operator: choose another name."
KEPT_RULE = "must be one that the operator does not keep"

_SETTINGS = items.scope(EDGE, "/settings"), "names"
_RESERVATIONS = (kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS)
_RESERVED = frozenset(kind.path for kind in _RESERVATIONS)


class OtherSettingsError(Exception):
    """TUNNEL_DOMAIN or TCP_PORTS are not those with which the table is used."""


class TooManyNames(Exception):
    """The account has as many names as it may have."""


def domain() -> str:
    """Return TUNNEL_DOMAIN in its normal form, "" where it is unset. Raises ValueError."""
    text = os.environ.get("TUNNEL_DOMAIN", "").strip()
    return domains.normal(text) if text else ""


def ports() -> range:
    """Return the ports of TCP_PORTS, as 20000-20099; none where it is unset. Raises ValueError."""
    return ports_of(os.environ.get("TCP_PORTS", ""))


def ports_of(text: str) -> range:
    """Return the ports that a text names, as 20000-20099; none where it is empty. Raises ValueError."""
    if not text.strip():
        return range(0)
    first, _, last = text.strip().partition("-")
    found = range(int(first), int(last or first) + 1)
    if not found or found[0] < 1 or found[-1] > 65535:
        raise ValueError("TCP_PORTS must be of the form 20000-20099")
    return found


def check_settings() -> None:
    """Write down the settings where nobody has yet. Raises OtherSettingsError where others are in use, ValueError."""
    check_settings_of(domain(), os.environ.get("TCP_PORTS", "").strip())


def check_settings_of(tunnel_domain: str, tcp_ports: str) -> None:
    """Do what `check_settings` does for the given settings, once for each table in a process."""
    _check(dynamodb.table_name(), tunnel_domain, tcp_ports)


@cache
def _check(_table: str, tunnel_domain: str, tcp_ports: str) -> None:
    wanted = {"tunnel_domain": tunnel_domain, "tcp_ports": tcp_ports}
    found = dynamodb.get(*_SETTINGS)
    if found is None and tunnel_domain:
        try:
            dynamodb.do(Write.put(Item(*_SETTINGS, wanted).to_record(), Condition("attribute_not_exists(#id)")))
        except ConditionFailed:
            found = dynamodb.get(*_SETTINGS)
    if found and found["body"] != wanted:
        told = ", ".join(f"{name.upper()}={value or 'unset'}" for name, value in found["body"].items())
        raise OtherSettingsError(f"This table is used with {told}.")


def forget_settings() -> bool:
    """Let the next process that asks write its settings down; False where none are. Raises aws.Unavailable."""
    _check.cache_clear()
    try:
        dynamodb.do(Write.delete(*_SETTINGS, Condition("attribute_exists(#id)")))
    except ConditionFailed:
        return False
    return True


def domain_in_use() -> str:
    """Return the TUNNEL_DOMAIN with which the table is used, "" where none is written down. Raises aws.Unavailable."""
    found = dynamodb.get(*_SETTINGS)
    return str(found["body"]["tunnel_domain"]) if found else ""


def is_below(host: str) -> bool:
    """Tell whether a host in its normal form lies below TUNNEL_DOMAIN, or is it."""
    return domains.is_below(host, domain())


def unit(host: str) -> str:
    """Return the name that stands for a host below TUNNEL_DOMAIN, "" for the domain itself and what is elsewhere."""
    return _unit(host, domain())


def account_of(name: str, tunnel_domain: str) -> str:
    """Return the account that has a host below the domain, or host:port, or "". Raises aws.Unavailable."""
    host, _, port = name.partition(":")
    of_port = f"{tunnel_domain}:{port}" if port and port != "443" else ""
    record = dynamodb.get(f"{KIND}#{of_port or _unit(host, tunnel_domain)}", unique_keys.ID) or {}
    return str(record.get("account", ""))


def _unit(host: str, below: str) -> str:
    label = host.removesuffix(f".{below}").rpartition(".")[2] if below and host.endswith(f".{below}") else ""
    return f"{label}.{below}" if label and label != "*" else ""


def may_be_a_tunnels(host: str) -> bool:
    """Tell whether a tunnel may have a host for its name: one label below TUNNEL_DOMAIN, or whatever is elsewhere."""
    return bool(domain()) and not host.startswith(domains.WILDCARD) and unit(host) in (host, "")


def is_kept(unit: str) -> bool:
    """Tell whether the operator keeps a name for the service itself."""
    return unit.partition(".")[0] in KEPT


def address(port: int) -> str:
    """Return the address of a port of the edge, host:port, which is its unit."""
    return f"{domain()}:{port}"


def key(name: str, *, field: str, rests: int = 0) -> UniqueKey:
    """Return the key of a name or port, which the items of an account hold together."""
    return UniqueKey(KIND, name, field=field, hold="together", rests=rests)


def listening(account: str, hostport: str) -> UniqueKey:
    """Return the key that an edge of an account has while it listens on a hostport."""
    return UniqueKey(HOSTPORTS, f"{account}/{hostport}")


def keys_of(kind: Kind, hostports: Sequence[str]) -> tuple[UniqueKey, ...]:
    """Return the keys of what an edge of a kind listens on: names, and of TCP also ports."""
    found: dict[UniqueKey, None] = {}
    by_port = kind is kinds.TCP_EDGES
    for place, hostport in enumerate(hostports):
        host, _, port = hostport.rpartition(":")
        names = [unit(host), address(int(port)) if by_port and is_below(host) else ""]
        found |= dict.fromkeys(key(name, field=f"hostports.{place}") for name in names if name)
    return tuple(found)


def holds(edge: Item, hostport: str, tunnel_domain: str) -> bool:
    """Tell whether an edge holds the keys of a hostport: of one below the domain its name, of TCP its port.

    One that was made before the service had the domain does not, and another account may have the name.
    """
    host, _, port = hostport.rpartition(":")
    if not domains.is_below(host, tunnel_domain):
        return True
    by_port = kinds.of(edge.id) is kinds.TCP_EDGES
    wanted = {_unit(host, tunnel_domain), f"{tunnel_domain}:{int(port)}" if by_port else ""} - {""}
    return bool(wanted) and wanted <= {key.value for key in edge.unique_keys if key.kind == KIND}


def weight(item: Item, keys: Iterable[UniqueKey]) -> int:
    """Return the number of its account's names that an item has by these keys; one that rests is not given back yet."""
    kind = None if kinds.is_of_the_edge(item.scope) else kinds.of(item.id)
    if kind in _RESERVATIONS:
        return int(not any(key.rests for key in keys))
    return sum(key.kind == KIND for key in keys) if kind in kinds.EDGES else 0


def counted(account: str, more: int) -> Write:
    """Return the write that counts names of an account; it fails with TooManyNames beyond MAX_NAMES."""
    free = Condition("attribute_not_exists(#names) OR #names <= :most", {"most": MAX_NAMES - more})
    condition = free if more > 0 else Condition("")
    adds = {"names": more, "revision": 1}
    return Write.update(*_count(account), condition, sets={"schema": SCHEMA}, adds=adds, failing=TooManyNames())


def resting(reservation: Item) -> Write:
    """Return the write by which the name of a deleted reservation is counted while it rests."""
    id, until = ids.unprefixed(reservation.id), clock.seconds() + RESTS
    return Write.put({"scope": _resting(reservation.account), "id": id, "body": {"until": until}, "revision": 1})


def settle(account: str) -> bool:
    """Count no more what has rested; False where nothing has. Raises aws.Unavailable."""
    done = False
    for item in table.every(_resting(account)):
        if item.body["until"] <= clock.seconds():
            gone = Write.delete(item.scope, item.id, Condition("attribute_exists(#id)"))
            try:
                dynamodb.transact([gone, counted(account, -1)])
            except TransactionFailed:
                continue  # another has done it
            done = True
    return done


def is_reserved(account: str, name: str) -> bool:
    """Tell whether an account has reserved a name, something below it, or an address. Raises aws.Unavailable."""
    return bool(reservations(account, name))


def reservations(account: str, name: str) -> list[str]:
    """Return the ids of an account's reservations of a name, what is below it, or an address.

    Raises aws.Unavailable.
    """
    record = dynamodb.get(f"{KIND}#{name}", unique_keys.ID) or {}
    holders = record.get("sharers", ()) if record.get("account") == account else ()
    return [id for path, _, id in (holder.rpartition("/") for holder in holders) if path in _RESERVED]


def is_of_the_operator(taken: Taken) -> bool:
    """Tell whether it is the operator who has a name that was found taken."""
    return kinds.is_of_the_edge(taken.by)


def _count(account: str) -> tuple[str, str]:
    return items.scope(account, "/names"), "count"


def _resting(account: str) -> str:
    return items.scope(account, "/names/resting")
