"""Names below TUNNEL_DOMAIN and ports of TCP_PORTS: each is one account's, for all that the account has under it.

The unit is the label directly left of the domain: `team.D` stands for x.team.D and *.team.D too. It has one record, a
shared key of the storage. `name_counts` counts how many names an account has.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from chalicelib import clock, domains
from chalicelib.model import kinds
from chalicelib.model.kinds import EDGE, Kind
from chalicelib.model.listening import HOSTPORTS as HOSTPORTS
from chalicelib.storage import dynamodb, items, unique_keys
from chalicelib.storage.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken, UniqueKey

KIND = "tunnel_name"
# What the operator keeps; below "cname" lie the targets of domains that are elsewhere.
OPERATOR_NAMES = frozenset(
    {"www", "api", "admin", "mail", "ns", "localhost", "edge", "gateway", "tunnel", "tunnels", "cname"}
)
OPERATOR_NAME_MESSAGE = "'{}' is kept by the operator: choose another name."
OPERATOR_NAME_RULE = "must be one that the operator does not keep"

Settings = tuple[str, str]  # TUNNEL_DOMAIN and TCP_PORTS

_SETTINGS = items.scope(EDGE, "/settings"), "names"
_RESERVATIONS = (kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS)
_RESERVED = frozenset(kind.path for kind in _RESERVATIONS)


class OtherSettingsError(Exception):
    """TUNNEL_DOMAIN or TCP_PORTS differ from those of the table. The text says how, and how to correct it."""


def domain() -> str:
    """Return TUNNEL_DOMAIN in its normal form, "" where it is unset. Raises ValueError."""
    text = os.environ.get("TUNNEL_DOMAIN", "").strip()
    return domains.normal(text) if text else ""


def ports() -> range:
    """Return the ports of TCP_PORTS, as 20000-20099; none where it is unset. Raises ValueError."""
    return parse_ports(ports_text())


def parse_ports(text: str) -> range:
    """Return the ports that a text names, as 20000-20099; none where it is empty. Raises ValueError."""
    if not text.strip():
        return range(0)
    first, _, last = text.strip().partition("-")
    found = range(int(first), int(last or first) + 1)
    if not found or found[0] < 1 or found[-1] > 65535:
        raise ValueError("TCP_PORTS must be of the form 20000-20099")
    return found


def check_settings() -> None:
    """Store the settings if the table has none. Raises OtherSettingsError if it has others, ValueError."""
    check_given_settings(domain(), ports_text())


def check_settings_for(hosts: Iterable[str]) -> None:
    """Do what `check_settings` does, but accept other settings if no host lies below either domain.

    Raises OtherSettingsError, ValueError.
    """
    try:
        check_settings()
    except OtherSettingsError:
        below = (domain(), domain_in_use())
        if any(domains.is_below(host, it) for host in hosts for it in below):
            raise


def check_given_settings(tunnel_domain: str, tcp_ports: str) -> None:
    """Do what `check_settings` does for the given settings, once for each table in a process."""
    _check(dynamodb.table_name(), tunnel_domain, tcp_ports)


def describe_difference() -> str:
    """Return a sentence that says how the settings differ from those of the table, "" if they do not.

    Raises ValueError, aws.Unavailable.
    """
    return describe_difference_from(domain(), ports_text())


def describe_difference_from(tunnel_domain: str, tcp_ports: str) -> str:
    """Return what `difference` does for the given settings. Raises aws.Unavailable."""
    found, wanted = _stored(), (tunnel_domain, tcp_ports)
    return compare_settings(found, wanted) if found else ""


def compare_settings(stored: Settings, wanted: Settings) -> str:
    """Return a sentence that says how settings differ from those of the table, "" if they do not."""
    differing = [place for place in (0, 1) if stored[place] != wanted[place]]
    if not differing:
        return ""
    there, here = (_format_settings(settings, differing) for settings in (stored, wanted))
    return (
        f"This table is used with {there}, but here {here}: set the same as the table, or, to change it for all, "
        "stop what uses the table and run 'python -m chalicelib names forget-settings'."
    )


@cache
def _check(_table: str, tunnel_domain: str, tcp_ports: str) -> None:
    wanted, found = {"tunnel_domain": tunnel_domain, "tcp_ports": tcp_ports}, _stored()
    if tunnel_domain and not found:
        try:
            dynamodb.do(Write.put(Item(*_SETTINGS, wanted).to_record(), Condition("attribute_not_exists(#id)")))
        except ConditionFailed:  # another process has stored its own
            found = _stored()
    if found and (sentence := compare_settings(found, (tunnel_domain, tcp_ports))):
        raise OtherSettingsError(sentence)


def _stored() -> Settings | None:
    found = dynamodb.get(*_SETTINGS)
    return (found["body"]["tunnel_domain"], found["body"]["tcp_ports"]) if found else None


def _format_settings(settings: Settings, places: Iterable[int] = (0, 1)) -> str:
    return " and ".join(f"{('TUNNEL_DOMAIN', 'TCP_PORTS')[it]}={settings[it] or 'unset'}" for it in places)


def ports_text() -> str:
    """Return TCP_PORTS as it is set, "" if it is unset."""
    return os.environ.get("TCP_PORTS", "").strip()


def forget_settings() -> str:
    """Let the next process that uses names store its settings. Return those of the table, "" if it has none.

    Raises aws.Unavailable.
    """
    _check.cache_clear()
    found = _stored()
    if found:
        dynamodb.do(Write.delete(*_SETTINGS))
    return _format_settings(found) if found else ""


def names_in_use() -> Iterator[str]:
    """Yield the names and ports that accounts hold or have in cooldown. Reads the whole table.

    Raises aws.Unavailable.
    """
    selected = "begins_with(#scope, :keys) AND attribute_exists(#account)"
    in_use = "(attribute_exists(#sharers) OR attribute_exists(#holder) OR #rests > :now)"
    values = {"keys": f"{KIND}#", "now": clock.seconds()}
    for page in dynamodb.scan(values, FilterExpression=f"{selected} AND {in_use}"):
        yield from (str(record["scope"]).removeprefix(f"{KIND}#") for record in page)


def domain_in_use() -> str:
    """Return the TUNNEL_DOMAIN with which the table is used, "" where none is written down. Raises aws.Unavailable."""
    found = _stored()
    return found[0] if found else ""


def is_below(host: str) -> bool:
    """Tell whether a host in its normal form lies below TUNNEL_DOMAIN, or is it."""
    return domains.is_below(host, domain())


def base_name(host: str) -> str:
    """Return the name that stands for a host below TUNNEL_DOMAIN, "" for the domain itself and what is elsewhere."""
    return _base_name_below(host, domain())


def find_account(name: str, tunnel_domain: str) -> str:
    """Return the account that has a host below the domain, or host:port, or "". Raises aws.Unavailable."""
    host, _, port = name.partition(":")
    of_port = f"{tunnel_domain}:{port}" if port and port != "443" else ""
    record = dynamodb.get(f"{KIND}#{of_port or _base_name_below(host, tunnel_domain)}", unique_keys.ID) or {}
    return str(record.get("account", ""))


def _base_name_below(host: str, below: str) -> str:
    label = host.removesuffix(f".{below}").rpartition(".")[2] if below and host.endswith(f".{below}") else ""
    return f"{label}.{below}" if label and label != "*" else ""


def can_name_tunnel(host: str) -> bool:
    """Tell whether a tunnel may have a host for its name: one label below TUNNEL_DOMAIN, or whatever is elsewhere."""
    return bool(domain()) and not host.startswith(domains.WILDCARD) and base_name(host) in (host, "")


def is_operator_name(unit: str) -> bool:
    """Tell whether the operator keeps a name for the service itself."""
    return unit.partition(".")[0] in OPERATOR_NAMES


def port_address(port: int) -> str:
    """Return the address of a port of the edge, host:port, which is its unit."""
    return f"{domain()}:{port}"


def key(name: str, *, field: str = "") -> UniqueKey:
    """Return the key of a name or port, which the items of an account hold together."""
    return UniqueKey(KIND, name, field=field, hold="together")


def listening_key(account: str, hostport: str) -> UniqueKey:
    """Return the key that an edge of an account has while it listens on a hostport."""
    return UniqueKey(HOSTPORTS, f"{account}/{hostport}")


def list_keys(kind: Kind, hostports: Sequence[str]) -> tuple[UniqueKey, ...]:
    """Return the keys of what an edge of a kind listens on: names, and of TCP also ports."""
    found: dict[UniqueKey, None] = {}
    by_port = kind is kinds.TCP_EDGES
    for place, hostport in enumerate(hostports):
        host, _, port = hostport.rpartition(":")
        names = [base_name(host), port_address(int(port)) if by_port and is_below(host) else ""]
        found |= dict.fromkeys(key(name, field=f"hostports.{place}") for name in names if name)
    return tuple(found)


def has_keys_of(edge: Item, hostport: str, tunnel_domain: str) -> bool:
    """Tell whether an edge holds the keys of a hostport: of one below the domain its name, of TCP its port.

    One that was made before the service had the domain does not, and another account may have the name.
    """
    host, _, port = hostport.rpartition(":")
    if not domains.is_below(host, tunnel_domain):
        return True
    by_port = kinds.of(edge.id) is kinds.TCP_EDGES
    wanted = {_base_name_below(host, tunnel_domain), f"{tunnel_domain}:{int(port)}" if by_port else ""} - {""}
    return bool(wanted) and wanted <= {key.value for key in edge.unique_keys if key.kind == KIND}


def is_reserved(account: str, name: str) -> bool:
    """Tell whether an account has reserved a name, something below it, or an address. Raises aws.Unavailable."""
    return bool(list_reservations(account, name))


def list_reservations(account: str, name: str) -> list[str]:
    """Return the ids of an account's reservations of a name, what is below it, or an address.

    Raises aws.Unavailable.
    """
    record = dynamodb.get(f"{KIND}#{name}", unique_keys.ID) or {}
    holders = record.get("sharers", ()) if record.get("account") == account else ()
    return [id for path, _, id in (holder.rpartition("/") for holder in holders) if path in _RESERVED]


def is_taken_by_operator(taken: Taken) -> bool:
    """Tell whether it is the operator who has a name that was found taken."""
    return kinds.is_internal(taken.by)
