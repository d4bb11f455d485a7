"""Reserved domains and addresses. They belong to an account even while no tunnel uses them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from chalicelib import domains
from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Described, References
from chalicelib.model.names import base_names, name_counts, proofs
from chalicelib.model.names.proofs import Proof
from chalicelib.model.tls.certificate_policies import CertificatePolicy
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import decoding, items, table, unique_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

PROVED_DOMAIN = "domain"  # `UniqueKey.kind` of the keys that make proved domains unique in the service
_AUDITED_IF_SET = ("certificate_management_policy", "keep_headers")
_RESERVED_DOMAIN = "reserved_domain"  # `UniqueKey.kind` of the keys that make reserved domains unique in an account


@dataclass(frozen=True, kw_only=True)
class ReservedDomain(Described):
    """The stored form of a reserved domain. `proof` is the record of a `Proof`, empty below TUNNEL_DOMAIN."""

    domain: str
    region: str = ""
    certificate_id: str = ""
    certificate_management_policy: Mapping[str, str] | None = None
    issued_certificate_id: str = ""  # the id of the domain's latest automatic certificate
    resolves_to: list[str] = field(default_factory=list)
    proxy_protocol: bool = False
    keep_headers: list[str] = field(default_factory=list)
    proof: Mapping[str, Any] = field(default_factory=dict)

    AUDITED = ("domain", "region", "certificate_id", "certificate_management_policy", "proxy_protocol", "keep_headers")

    def audited_fields(self) -> dict[str, Any]:
        return {name: value for name, value in super().audited_fields().items() if value or name not in _AUDITED_IF_SET}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        stored = super().of(record)
        _ = stored.progress, stored.policy
        return stored

    @property
    def progress(self) -> Proof | None:
        """Return the proof of the domain, or None if the domain requires no proof. Raises MalformedRecord."""
        return decoding.decode(Proof, self.proof) if self.proof else None

    @property
    def is_verified(self) -> bool:
        """Return whether the domain is proved and its DNS record exists. Raises MalformedRecord."""
        progress = self.progress
        return progress is not None and progress.status == "verified"

    def to_record(self) -> dict[str, Any]:
        record = super().to_record()
        return {name: value for name, value in record.items() if value or name != "issued_certificate_id"}

    @property
    def policy(self) -> CertificatePolicy | None:
        """Return the policy for automatic certificates, or None. Raises MalformedRecord."""
        policy = self.certificate_management_policy
        return None if policy is None else decoding.decode(CertificatePolicy, policy)

    @property
    def chosen_certificate_id(self) -> str:
        """Return `certificate_id` if the account has set it. Return "" if the issuer has set it."""
        return "" if self.certificate_id == self.issued_certificate_id else self.certificate_id

    def references(self) -> References:
        return {"certificate_id": [self.certificate_id] if self.certificate_id else []}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique keys of the domain.

        Every domain has a key that is unique within its account. Below TUNNEL_DOMAIN it also has the shared key of its
        base name. Outside TUNNEL_DOMAIN, a proved domain also has a key that is unique in the whole service.
        """
        account_key = replace(reserved_key(account, self.domain), field="domain")
        proof = self.progress
        if proof is None:
            base_name = base_names.base_name(self.domain)
            return (account_key, base_names.key(base_name, field="domain")) if base_name else (account_key,)
        proved = replace(proved_key(self.domain), attributes={"account": account, "id": id})
        return (account_key, proved) if proof.holds else (account_key,)

    @classmethod
    def prepare(cls, before: Item | None, after: Item | None, writes: Sequence[Write]) -> Sequence[Write]:
        return name_counts.prepare(before, after, writes)


@dataclass(frozen=True)
class ServedReservation:
    """A reserved domain as the edge serves it. A domain below TUNNEL_DOMAIN counts as proved.

    If the record of the domain is malformed, `is_readable` is False, and the domain is read from its unique keys.
    """

    account: str
    id: str
    domain: str
    is_proved: bool
    certificate_id: str = ""
    proxy_protocol: bool = False
    is_readable: bool = True
    keep_headers: tuple[str, ...] = ()
    modules: Mapping[str, Any] = field(default_factory=dict, hash=False)  # modules as they are stored, by name

    @staticmethod
    def of(item: Item) -> "ServedReservation | None":
        """Return the reservation of an item, or None if the domain of the item is unknown."""
        try:
            stored = records.decode(ReservedDomain, item)
        except MalformedRecord as malformed:
            decoding.report(item.scope, item.id, malformed)
            return _decode_keys(item)
        return ServedReservation(
            item.account,
            item.id,
            stored.domain,
            stored.progress is None or stored.progress.holds,
            stored.certificate_id,
            stored.proxy_protocol,
            keep_headers=tuple(stored.keep_headers),
            modules=item.modules,
        )


def _decode_keys(item: Item) -> ServedReservation | None:
    """Return a malformed reservation, with its domain from its unique keys. Return None if these lack the domain."""
    keys = {f"{key.kind}": f"{key.value}" for key in item.unique_keys}
    domain = keys.get(_RESERVED_DOMAIN, "").partition("/")[2]
    is_proved = PROVED_DOMAIN in keys or base_names.KIND in keys
    return ServedReservation(item.account, item.id, domain, is_proved, is_readable=False) if domain else None


class UnreadableReservation(Exception):
    """The record of a reservation is malformed."""


class NotProved(Exception):
    """The account has not proved the domain, or its proof has lapsed."""


@dataclass(frozen=True, kw_only=True)
class ReservedAddr(Described):
    """The stored form of a reserved address, host:port."""

    addr: str
    region: str = ""
    proxy_protocol: bool = False

    AUDITED = ("addr", "region", "proxy_protocol")

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        return (base_names.key(self.addr, field="addr"),)

    @classmethod
    def prepare(cls, before: Item | None, after: Item | None, writes: Sequence[Write]) -> Sequence[Write]:
        return name_counts.prepare(before, after, writes)


def set_proof(item: Item, proof: Proof) -> Item:
    """Return the next revision of a reserved domain, with a new proof."""
    before = records.decode(ReservedDomain, item)
    after = replace(before, proof={**before.proof, **asdict(proof)})
    body = {**item.body, "proof": after.proof}
    keys = records.keys_of_change(item, before, after)
    return replace(item, body=body, unique_keys=keys, revision=items.choose_revision(item))


def list_proved(before: Item, after: Item | None) -> list[Write]:
    """Return the write that adds or removes a domain in the list of proved domains.

    There is one list for each parent domain, with the proved domains directly below it. From this list, the live edge
    knows which hosts a wildcard does not serve.
    """
    old, new = (_list_scope(item) if item else None for item in (before, after))
    if new and new != old:
        return [Write.put({"scope": new, "id": before.id, "body": {"account": before.account}, "revision": 1})]
    return [Write.delete(old, before.id)] if old and old != new else []


def read_reservations_for(account: str, hosts: Iterable[str], tunnel_domain: str) -> list[ServedReservation]:
    """Return the reservations that decide whether an account may serve some hosts.

    For a host below TUNNEL_DOMAIN, these are reservations of the account. For any other host, these are the proved
    reservations of all accounts. If such a host is a wildcard, the reservations that are proved directly below it are
    included. Raises aws.Unavailable.
    """
    host_list = list(hosts)
    keys = (key for host in host_list for key in _list_keys(account, host, tunnel_domain))
    key_records = table.read_records((key.scope, unique_keys.ID) for key in keys)
    item_keys = [(record["home"], record["holder"]) for record in key_records.values() if _names_an_item(record)]
    for host in host_list:
        if host.startswith(domains.WILDCARD) and not domains.is_below(host, tunnel_domain):
            item_keys += list_proved_below(host.removeprefix(domains.WILDCARD))
    stored = map(Item.from_record, table.read_records(item_keys).values())
    return [reservation for item in stored if item.is_live and (reservation := ServedReservation.of(item))]


def _names_an_item(record: Mapping[str, Any]) -> bool:
    """Return whether the record of a unique key refers to an item that has this unique key."""
    return isinstance(record.get("home"), str) and isinstance(record.get("holder"), str)


def list_proved_below(domain: str) -> list[tuple[str, str]]:
    """Return the primary keys of the reservations that are proved directly below a domain.

    Entries that do not contain the ids of an account and a reserved domain are left out. The edge can write such
    entries. With them, it could make the API read a record that the edge has no right to read. Raises aws.Unavailable.
    """
    named = ((f"{entry.body.get('account')}", entry.id) for entry in table.read_all(proved_scope(domain)))
    return [
        (items.scope(account, kinds.RESERVED_DOMAINS.path), id)
        for account, id in named
        if kinds.ACCOUNTS.has(account) and kinds.RESERVED_DOMAINS.has(id)
    ]


def find_proving(host: str, tunnel_domain: str) -> ServedReservation | None:
    """Return the reservation that proves a host outside TUNNEL_DOMAIN, or None. Raises aws.Unavailable."""
    candidates = read_reservations_for("", [host], tunnel_domain)
    proved = {reservation.domain: reservation for reservation in candidates if reservation.is_proved}
    return proofs.find_proving(host, proved)


def require_proved(reservation: ServedReservation) -> Write:
    """Return the write with which a transaction raises NotProved if a reservation no longer proves its domain."""
    same = Condition("#holder = :proved", {"proved": reservation.id})
    return Write.check(proved_key(reservation.domain).scope, unique_keys.ID, same, NotProved())


def _list_keys(account: str, host: str, tunnel_domain: str) -> Iterable[UniqueKey]:
    is_below = domains.is_below(host, tunnel_domain)
    for domain in proofs.list_proving_domains(host):
        yield reserved_key(account, domain) if is_below else proved_key(domain)


def reserved_key(account: str, domain: str) -> UniqueKey:
    """Return the key that makes a reserved domain unique within its account."""
    return UniqueKey(_RESERVED_DOMAIN, f"{account}/{domain}")


def proved_key(domain: str) -> UniqueKey:
    """Return the key that makes a proved domain outside TUNNEL_DOMAIN unique in the whole service."""
    return UniqueKey(PROVED_DOMAIN, domain)


def _list_scope(item: Item) -> str | None:
    """Return the partition key of the list in which a proved domain belongs. Return None for a wildcard."""
    try:
        stored = records.decode(ReservedDomain, item)
    except MalformedRecord:  # without its domain, a deleted reservation would stay in the list of proved domains
        domain = next((key.value for key in item.unique_keys if key.kind == PROVED_DOMAIN), domains.WILDCARD)
    else:
        domain = stored.domain if stored.progress and stored.progress.holds else domains.WILDCARD
    return None if domain.startswith(domains.WILDCARD) else proved_scope(domain.partition(".")[2])


def proved_scope(domain: str) -> str:
    """Return the partition key of the list of domains that are proved directly below a domain."""
    return items.scope(kinds.EDGE, f"/proved/{domain}")


def uses_proxy_protocol(account: str, name: str, tunnel_domain: str) -> bool:
    """Return whether an account's reservation of a tunnel's name or address has `proxy_protocol`.

    Return False if the account has not reserved the name or address. Raises UnreadableReservation, aws.Unavailable.
    """
    if ":" in name:
        return any(_address_uses_proxy_protocol(account, id) for id in base_names.list_reservations(account, name))
    candidates = read_reservations_for(account, [name], tunnel_domain)
    proved = {candidate.domain: candidate for candidate in candidates if candidate.is_proved}
    reservation = proofs.find_proving(name, proved)
    if reservation is None or reservation.account != account:
        return False
    if not reservation.is_readable:
        raise UnreadableReservation
    return reservation.proxy_protocol


def _address_uses_proxy_protocol(account: str, id: str) -> bool:
    """Return whether a reserved address has `proxy_protocol`. Raises UnreadableReservation, aws.Unavailable."""
    item = table.find_any(items.scope(account, kinds.RESERVED_ADDRS.path), id)
    return decode_proxy_protocol(item) if item else False


def decode_proxy_protocol(address: Item) -> bool:
    """Return the `proxy_protocol` of a reserved address. Raises UnreadableReservation."""
    try:
        return records.decode(ReservedAddr, address).proxy_protocol
    except MalformedRecord:
        raise UnreadableReservation from None
