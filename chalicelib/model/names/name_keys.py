"""The unique keys that decide which account owns a host, and which edge, tunnel or reservation uses it. Does no I/O.

A unique key is the record that makes a name unique: it refers to the items that have the name. In this file, "key"
means such a record, and "item key" means the primary key (`scope` and `id`) of any record.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from chalicelib import domains
from chalicelib.model.base import kinds
from chalicelib.model.names import base_names, proofs, reservations
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.storage.records import unique_keys
from chalicelib.storage.records.change_log import ItemKey

# the most reservations of a base name that are all read; of more reservations, only those that cover the host are read
_MAX_DIRECT = 10


@dataclass(frozen=True)
class NameKey:
    """The record of a unique key.

    `scope` and `owner_id` are the primary key of the item that owns the unique key exclusively. `sharers` are the
    primary keys of the items of `account` that share the unique key.
    """

    account: str
    scope: str = ""
    owner_id: str = ""
    sharers: tuple[ItemKey, ...] = ()

    @staticmethod
    def of(record: Mapping[str, Any]) -> "NameKey":
        """Return the unique key that a record stores. Malformed fields of the record are left out."""
        body, scope, owner_id = (record.get(name) for name in ("body", "home", "holder"))
        attributes = body if isinstance(body, Mapping) else {}
        scope = scope if isinstance(scope, str) else ""
        account = record.get("account") or attributes.get("account") or scope.partition("#")[0]
        shared = record.get("sharers", ())
        paths = sorted(path for path in shared if isinstance(path, str)) if isinstance(shared, set | frozenset) else ()
        parts = [path.rpartition("/") for path in paths]
        sharers = tuple(ItemKey(f"{account}#{path}", id) for path, _, id in parts)
        return NameKey(f"{account}", scope, owner_id if isinstance(owner_id, str) else "", sharers)

    @property
    def is_in_use(self) -> bool:
        """Return whether an item of an account has the unique key.

        Return False for a name in cooldown, and for a name that the operator has banned.
        """
        return bool(self.owner_id or self.sharers) and not kinds.is_internal(self.scope)

    @property
    def reserved_domains(self) -> list[ItemKey]:
        return [sharer for sharer in self.sharers if sharer.scope.endswith(f"#{kinds.RESERVED_DOMAINS.path}")]

    def list_addresses_of(self, account: str) -> list[ItemKey]:
        """Return the primary keys of an account's reserved addresses that share the key."""
        shared = self.sharers if self.account == account else ()
        return [sharer for sharer in shared if sharer.scope.endswith(f"#{kinds.RESERVED_ADDRS.path}")]

    def find_owner_item(self, kind: kinds.Kind) -> ItemKey | None:
        """Return the primary key of the item that owns the key exclusively.

        Return None if there is no such item, or if its kind is not `kind`.
        """
        is_alike = self.owner_id and self.scope.partition("#")[2] == kind.path
        return ItemKey(self.scope, self.owner_id) if is_alike else None


# returns the record of a unique key by its primary key, or None if that record has not been read yet
FindKey: TypeAlias = Callable[[ItemKey], NameKey | None]


def name_item_key(name: str) -> ItemKey:
    """Return the primary key of the record that reserves a base name, a port or a tunnel's name."""
    return ItemKey(f"{base_names.KIND}#{name}", unique_keys.ID)


def list_owner_item_keys(host: str, tunnel_domain: str) -> list[ItemKey]:
    """Return the primary keys of the unique keys that decide which account owns a host. The most specific domain comes
    first.

    A host below TUNNEL_DOMAIN has only the unique key of its base name. TUNNEL_DOMAIN itself has no unique key. Outside
    TUNNEL_DOMAIN, the last primary key belongs to the unique key of a tunnel that has the host as its name.
    """
    if domains.is_below(host, tunnel_domain):
        base_name = base_names.base_name_below(host, tunnel_domain)
        return [name_item_key(base_name)] if base_name else []
    proving = [item_key_of(reservations.proved_key(domain)) for domain in proofs.list_proving_domains(host)]
    return [*proving, *([] if host.startswith(domains.WILDCARD) else [name_item_key(host)])]


def find_owner(host: str, tunnel_domain: str, find_key: FindKey) -> str:
    """Return the account that owns a host, or "".

    `find_key` returns the unique key with a primary key, or None if the caller has not read the record. The caller must
    first read the primary keys from `list_owner_item_keys`.
    """
    deciding = list_owner_item_keys(host, tunnel_domain)
    if not domains.is_below(host, tunnel_domain):
        deciding = [item_key for item_key in deciding if item_key != name_item_key(host)]
    key = next(filter(None, map(find_key, deciding)), None)
    return key.account if key and key.is_in_use else ""


def list_hostport_item_keys(account: str, host: str) -> list[ItemKey]:
    """Return the primary keys of the unique keys that edges of an account have for a host, or for the wildcard above
    it.
    """
    wildcard = f"{domains.WILDCARD}{host.partition('.')[2]}"
    hosts = dict.fromkeys([host, host if host.startswith(domains.WILDCARD) else wildcard])
    return [item_key_of(base_names.listening_key(account, f"{name}:443")) for name in hosts]


def list_reservation_item_keys(account: str, host: str, tunnel_domain: str, find_key: FindKey) -> list[ItemKey]:
    """Return the primary keys of the records to read for an account's reservations of a host.

    Below TUNNEL_DOMAIN, the unique key of the base name lists all reservations with the base name. If there are at most
    _MAX_DIRECT reservations, return their primary keys. Otherwise, return the primary keys of the unique keys of all
    domains that cover the host. Once `find_key` returns these unique keys, also return the reservations that own them.
    """
    owner_keys = [key for item_key in list_owner_item_keys(host, tunnel_domain) if (key := find_key(item_key))]
    if not domains.is_below(host, tunnel_domain):
        reservation_keys = filter(None, (key.find_owner_item(kinds.RESERVED_DOMAINS) for key in owner_keys))
        return [item_key for item_key in reservation_keys if item_key.scope.partition("#")[0] == account]
    reserved = [sharer for key in owner_keys for sharer in key.reserved_domains]
    if len(reserved) <= _MAX_DIRECT:
        return reserved
    account_keys = list_own_keys(account, host)
    owners = (key.find_owner_item(kinds.RESERVED_DOMAINS) for item_key in account_keys if (key := find_key(item_key)))
    return [*account_keys, *filter(None, owners)]


def list_own_keys(account: str, host: str) -> list[ItemKey]:
    """Return the primary keys of the unique keys that an account's reservations of a host have.

    Every domain that covers the host has one primary key, even if the account has not reserved that domain.
    """
    return [item_key_of(reservations.reserved_key(account, domain)) for domain in proofs.list_proving_domains(host)]


def list_reservation_keys(reservation: ServedReservation, tunnel_domain: str) -> list[ItemKey]:
    """Return the primary keys of the unique keys of a reservation."""
    domain = reservation.domain
    reserved_key = item_key_of(reservations.reserved_key(reservation.account, domain))
    if domains.is_below(domain, tunnel_domain):
        return [reserved_key, name_item_key(base_names.base_name_below(domain, tunnel_domain))]
    return [reserved_key, *([item_key_of(reservations.proved_key(domain))] if reservation.is_proved else [])]


def item_key_of(key: unique_keys.UniqueKey) -> ItemKey:
    """Return the primary key of the record of a unique key."""
    return ItemKey(key.scope, unique_keys.ID)
