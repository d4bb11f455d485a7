"""Names below TUNNEL_DOMAIN and ports of TCP_PORTS. Each belongs to one account.

The base name of a host is the name one label below TUNNEL_DOMAIN to which the host belongs. If TUNNEL_DOMAIN is D, the
base name of x.team.D and *.team.D is `team.D`. A base name has one record, a shared key: several items of its account
can have the key (see `shared_keys`). `name_counts` counts the names of an account.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from random import SystemRandom
from typing import Any

from chalicelib import clock, domains
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE, Kind
from chalicelib.model.names.listed_edges import HOSTPORTS as HOSTPORTS
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import items, unique_keys
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken, UniqueKey

KIND = "tunnel_name"
# Names that accounts cannot use. Hosts below "cname" are the targets of DNS aliases of domains outside TUNNEL_DOMAIN.
OPERATOR_NAMES = frozenset(
    {"www", "api", "admin", "mail", "ns", "localhost", "edge", "gateway", "tunnel", "tunnels", "cname", "sign-in"}
)
OPERATOR_NAME_MESSAGE = "'{}' is reserved by the operator: choose another name."
OPERATOR_NAME_RULE = "must be a name that the operator has not reserved"

Settings = tuple[str, str]  # the values of TUNNEL_DOMAIN and TCP_PORTS

_AT_ONCE = 100  # the most addresses that one call to the table reads
_SETTINGS = items.scope(EDGE, "/settings"), "names"
_RESERVATIONS = (kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS)
_RESERVED = frozenset(kind.path for kind in _RESERVATIONS)


class OtherSettingsError(Exception):
    """TUNNEL_DOMAIN or TCP_PORTS differ from the settings that the table stores. The message explains how to correct
    this.
    """


def domain() -> str:
    """Return TUNNEL_DOMAIN in its normal form, "" if it is unset. Raises ValueError."""
    text = os.environ.get("TUNNEL_DOMAIN", "").strip()
    return domains.normalize(text) if text else ""


def ports() -> range:
    """Return the ports of TCP_PORTS, an empty range if it is unset. Raises ValueError."""
    from chalicelib import port_ranges  # imported here, because few requests need the ports

    return port_ranges.parse(ports_text())


def check_settings() -> None:
    """Store TUNNEL_DOMAIN and TCP_PORTS in the table if it has no settings.

    Raises OtherSettingsError if the table has other settings, and ValueError if TUNNEL_DOMAIN is malformed.
    """
    check_given_settings(domain(), ports_text())


def check_settings_for(hosts: Iterable[str]) -> None:
    """Check the settings for an edge or tunnel with these hosts.

    Settings that differ from the table's are accepted if no host is below TUNNEL_DOMAIN or the table's
    domain. Raises OtherSettingsError, ValueError.
    """
    try:
        check_settings()
    except OtherSettingsError:
        below = (domain(), domain_in_use())
        if any(domains.is_below(host, suffix) for host in hosts for suffix in below):
            raise


def check_given_settings(tunnel_domain: str, tcp_ports: str) -> None:
    """Check the given values of TUNNEL_DOMAIN and TCP_PORTS.

    `check_settings` does the same for the values of the process. Values that were accepted are not checked again.
    """
    _check(dynamodb.table_name(), tunnel_domain, tcp_ports)


def describe_difference() -> str:
    """Return a sentence if this process's settings differ from the settings in the table, otherwise "".

    Raises ValueError, aws.Unavailable.
    """
    return describe_difference_from(domain(), ports_text())


def describe_difference_from(tunnel_domain: str, tcp_ports: str) -> str:
    """Return a sentence if given settings differ from those in the table, otherwise "". Raises aws.Unavailable."""
    stored, settings = _read_settings(), (tunnel_domain, tcp_ports)
    return compare_settings(stored, settings) if stored else ""


def compare_settings(stored: Settings, process_settings: Settings) -> str:
    """Return a sentence if `process_settings` differ from the `stored` settings, otherwise ""."""
    differing = [index for index in (0, 1) if stored[index] != process_settings[index]]
    if not differing:
        return ""
    there, here = (_format_settings(settings, differing) for settings in (stored, process_settings))
    return (
        f"The table stores {there}, but the settings are {here}: use the values of the table. To change them, "
        "stop what uses the table and run 'python -m chalicelib names forget-settings'."
    )


@cache
def _check(_table: str, tunnel_domain: str, tcp_ports: str) -> None:
    body, stored = {"tunnel_domain": tunnel_domain, "tcp_ports": tcp_ports}, _read_settings()
    if tunnel_domain and not stored:
        try:
            dynamodb.do(Write.put(Item(*_SETTINGS, body).to_record(), Condition("attribute_not_exists(#id)")))
        except ConditionFailed:  # another process has stored settings meanwhile, which are compared below
            stored = _read_settings()
    if stored and (sentence := compare_settings(stored, (tunnel_domain, tcp_ports))):
        raise OtherSettingsError(sentence)


def _read_settings() -> Settings | None:
    record = dynamodb.get(*_SETTINGS)
    return (record["body"]["tunnel_domain"], record["body"]["tcp_ports"]) if record else None


def _format_settings(settings: Settings, indexes: Iterable[int] = (0, 1)) -> str:
    return " and ".join(f"{('TUNNEL_DOMAIN', 'TCP_PORTS')[index]}={settings[index] or 'unset'}" for index in indexes)


def ports_text() -> str:
    """Return TCP_PORTS without surrounding spaces, "" if it is unset."""
    return os.environ.get("TCP_PORTS", "").strip()


def forget_settings() -> str:
    """Remove the settings from the table. Return the removed settings as text, "" if there were none.

    The next process that uses names stores its settings. Raises aws.Unavailable.
    """
    _check.cache_clear()
    stored = _read_settings()
    if stored:
        dynamodb.do(Write.delete(*_SETTINGS))
    return _format_settings(stored) if stored else ""


def names_in_use() -> Iterator[str]:
    """Yield the base names and ports that are in use, or in cooldown after their release. Reads the whole table.

    Raises aws.Unavailable.
    """
    selected = "begins_with(#scope, :keys) AND attribute_exists(#account)"
    in_use = "(attribute_exists(#sharers) OR attribute_exists(#holder) OR #rests > :now)"
    values = {"keys": f"{KIND}#", "now": clock.seconds()}
    for page in queries.scan(values, FilterExpression=f"{selected} AND {in_use}"):
        yield from (str(record["scope"]).removeprefix(f"{KIND}#") for record in page)


def domain_in_use() -> str:
    """Return the TUNNEL_DOMAIN that the table stores, "" if it has none. Raises aws.Unavailable."""
    stored = _read_settings()
    return stored[0] if stored else ""


def is_below(host: str) -> bool:
    """Return whether a host in its normal form is TUNNEL_DOMAIN or below it."""
    return domains.is_below(host, domain())


def base_name(host: str) -> str:
    """Return the base name of a host below TUNNEL_DOMAIN, or "". The base name of x.team.D is `team.D`."""
    return base_name_below(host, domain())


def find_account(name: str, tunnel_domain: str) -> str:
    """Return the account of a host or host:port below a domain, or "". Raises aws.Unavailable."""
    host, _, port = name.partition(":")
    of_port = f"{tunnel_domain}:{port}" if port and port != "443" else ""
    record = dynamodb.get(f"{KIND}#{of_port or base_name_below(host, tunnel_domain)}", unique_keys.ID) or {}
    return str(record.get("account", ""))


def base_name_below(host: str, below: str) -> str:
    """Return the base name of a host: the domain `below` with one label in front. Return "" for other hosts."""
    label = host.removesuffix(f".{below}").rpartition(".")[2] if below and host.endswith(f".{below}") else ""
    return f"{label}.{below}" if label and label != "*" else ""


def can_name_tunnel(host: str) -> bool:
    """Return whether a tunnel can have a host as its name.

    A tunnel can have a host one label below TUNNEL_DOMAIN, or any host outside it. It cannot have a wildcard.
    """
    return bool(domain()) and not host.startswith(domains.WILDCARD) and base_name(host) in (host, "")


def is_operator_name(unit: str) -> bool:
    """Return whether a base name is reserved for the service, for example for its API."""
    return unit.partition(".")[0] in OPERATOR_NAMES


def port_address(port: int) -> str:
    """Return the address of a port, TUNNEL_DOMAIN:port. Reservations use it as the port's base name."""
    return f"{domain()}:{port}"


def key(name: str, *, field: str = "") -> UniqueKey:
    """Return the shared key of a base name or port. Several items of one account can have this key."""
    return UniqueKey(KIND, name, field=field, hold="together")


def listening_key(account: str, hostport: str) -> UniqueKey:
    """Return the unique key that prevents a second edge of the account with the same hostport."""
    return UniqueKey(HOSTPORTS, f"{account}/{hostport}")


def list_keys(kind: Kind, hostports: Sequence[str]) -> tuple[UniqueKey, ...]:
    """Return the shared keys for the base names of hostports. A TCP edge also has shared keys for the ports."""
    keys: dict[UniqueKey, None] = {}
    by_port = kind is kinds.TCP_EDGES
    for index, hostport in enumerate(hostports):
        host, _, port = hostport.rpartition(":")
        names = [base_name(host), port_address(int(port)) if by_port and is_below(host) else ""]
        keys |= dict.fromkeys(key(name, field=f"hostports.{index}") for name in names if name)
    return tuple(keys)


def has_keys_of(edge: Item, hostport: str, tunnel_domain: str) -> bool:
    """Return whether an edge has all unique keys of its hostport.

    An edge that was created before TUNNEL_DOMAIN was set lacks these keys, and another account may have the name. Hosts
    outside TUNNEL_DOMAIN need no keys.
    """
    host, _, port = hostport.rpartition(":")
    if not domains.is_below(host, tunnel_domain):
        return True
    by_port = kinds.identify(edge.id) is kinds.TCP_EDGES
    names = {base_name_below(host, tunnel_domain), f"{tunnel_domain}:{int(port)}" if by_port else ""} - {""}
    return bool(names) and names <= {key.value for key in edge.unique_keys if key.kind == KIND}


def is_reserved(account: str, name: str) -> bool:
    """Return whether an account has reserved a base name or address. Raises aws.Unavailable."""
    return bool(list_reservations(account, name))


def list_reservations(account: str, name: str) -> list[str]:
    """Return the ids of an account's reservations of an address, or of a base name and names below it.

    Raises aws.Unavailable.
    """
    record = dynamodb.get(f"{KIND}#{name}", unique_keys.ID) or {}
    sharers = record.get("sharers", ()) if record.get("account") == account else ()
    return [id for path, _, id in (sharer.rpartition("/") for sharer in sharers) if path in _RESERVED]


def is_taken_by_operator(taken: Taken) -> bool:
    """Return whether an error `Taken` about a name means that the operator has banned the name."""
    return kinds.is_internal(taken.by)


def find_free_address(account: str, addresses: Sequence[str]) -> str | None:
    """Return a random address of `addresses` that an account can take, or None.

    Addresses in use, or in cooldown for another account, cannot be taken. Raises aws.Unavailable.
    """
    shuffled = SystemRandom().sample(addresses, len(addresses))
    for start in range(0, len(shuffled), _AT_ONCE):
        batch = shuffled[start : start + _AT_ONCE]
        records = dynamodb.get_each(*((f"{KIND}#{address}", unique_keys.ID) for address in batch))
        for address, record in zip(batch, records, strict=True):
            if _is_free(record, account):
                return address
    return None


def _is_free(record: Mapping[str, Any] | None, account: str) -> bool:
    if record is None:
        return True
    is_held = "holder" in record or "sharers" in record
    return not is_held and (record.get("account") == account or record.get("rests", 0) <= clock.seconds())
