"""Stored types: the classes of stored resources and modules, as frozen dataclasses.

A record is the mapping that the table stores for a value of such a class. Give each new field a default. Older records
lack the field, so they are read with the default, and `migrate` writes it. Packed texts are stored as shorter bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, item_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

References = Mapping[str, Iterable[str]]  # ids of other resources, by the field that names them


class Packing(Protocol):
    """A conversion of one form of text, for example SSH keys, to shorter bytes and back."""

    def pack(self, text: str) -> bytes | str:
        """Return a text as bytes. Return the text itself if the bytes would not reproduce it."""

    def unpack(self, packed_value: bytes | str) -> str:
        """Return the text for a value that `pack` returned."""


@dataclass(frozen=True)
class Ending:
    """The event details and further writes of a transaction that removes an item after the end of its lease."""

    details: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[Write] = ()


class NotReady(Exception):
    """A transaction failed, but can succeed after the writes of `make_room`.

    For example, the account has too many names in cooldown, and `make_room` ends the oldest cooldowns.
    """

    def make_room(self) -> bool:
        """Make the writes that the transaction requires. Return whether to try the transaction again.

        Raises aws.Unavailable.
        """
        return False


class LimitReached(NotReady):
    """A transaction would exceed a limit of its account."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The base class of all stored resources and modules. Secrets in it are encrypted, and `vault` decrypts them.

    `AUDITED` are the fields that audit events show: limits, references and rights, never secrets or free text. Of a
    nested stored value, events show only its own `AUDITED` fields. `PACKED` fields are stored as bytes. `IS_SHOWN_ONCE`
    is set if the value has a secret that only the response to the creation shows.
    """

    AUDITED: ClassVar[tuple[str, ...]] = ()
    PACKED: ClassVar[Mapping[str, Packing]] = {}
    IS_SHOWN_ONCE: ClassVar[bool] = False

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the value of a record in any record format.

        Missing fields get their defaults, unknown fields are ignored. Raises MalformedRecord if a field is not of its
        annotated type.
        """
        return decoding.decode(cls, record)

    def to_record(self) -> dict[str, Any]:
        """Return this value as a record without packed texts."""
        return dict(vars(self))

    def pack(self) -> dict[str, Any]:
        """Return this value as a record. From record format 3 on, its `PACKED` fields are bytes."""
        record = self.to_record()
        if not self.PACKED or item_keys.written_format() < 3:
            return record
        return {**record, **{name: packing.pack(record[name]) for name, packing in self.PACKED.items()}}

    def merge_into(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return this value as a record. Fields of an earlier `record` that this class does not know are copied."""
        field_names = {field.name for field in fields(self)}
        unknown = {name: value for name, value in record.items() if name not in field_names}
        return {**unknown, **{name: _merge(record.get(name), value) for name, value in self._pack_values().items()}}

    def _pack_values(self) -> dict[str, Any]:
        """Return the same mapping as `pack`, but leave fields that contain other Stored values as objects."""
        return {
            name: getattr(self, name) if _holds_stored(getattr(self, name)) else value
            for name, value in self.pack().items()
        }

    @classmethod
    def complete(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record with defaults for its missing fields. `PACKED` fields stay as they are."""
        return {**cls.of(record).merge_into(record), **{name: record[name] for name in cls.PACKED if name in record}}

    @classmethod
    def convert(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record with its `PACKED` fields as the format of new records requires."""
        packed = cls.of(record).pack() if cls.PACKED else {}
        return {name: packed[name] if name in cls.PACKED else value for name, value in record.items()}

    def audited_fields(self) -> dict[str, Any]:
        """Return the fields that audit events show. Of an encrypted secret, events show only that it exists."""
        return {name: _audited_value(getattr(self, name)) for name in self.AUDITED}

    def references(self) -> References:
        """Return the ids of the resources to which this resource refers, by field.

        With STRICT_REFERENCES, these resources must exist.
        """
        return {}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique keys of the resource: values that no other resource can have.

        `account` and `id` identify this resource.
        """
        return ()

    def former_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique keys of the resource in record format 2. The next change of the resource replaces them."""
        return ()

    @classmethod
    def prepare(cls, before: Item | None, after: Item | None, writes: Sequence[Write]) -> Sequence[Write]:
        """Return further writes for the transaction that changes an item.

        `before` is None for a new item, `after` for a removed one. Each attempt of the transaction calls this method.
        If a write must stay even if the transaction fails, the method makes it immediately and does not return it.
        Raises aws.Unavailable.
        """
        return ()

    @classmethod
    def find_lease(cls, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the primary key of the separate record that contains an item's lease.

        For example, a tunnel's lease is in the record of its SSH gateway. Return None if the lease is in the item's own
        record. `attributes` are the attributes of one of the item's unique keys.
        """
        return None

    @classmethod
    def end_lease(cls, lease: Mapping[str, Any] | None) -> Sequence[Write] | None:
        """Return the writes that prevent the renewal of a lapsed lease. Return None while the lease runs.

        `lease` is the record with the primary key from `find_lease`, or None if that record was deleted.
        """
        return None

    @classmethod
    def ending(cls, item: Item, lease: Mapping[str, Any] | None = None) -> Ending | None:
        """Return the event details and writes for an item with an ended lease. Return None if the end has no event.

        `lease` is the separate record that contains the lease, if there is one.
        """
        return None


S = TypeVar("S", bound=Stored)


@dataclass(frozen=True, kw_only=True)
class StoredModule(Stored):
    """The base class of the stored forms of all modules."""

    enabled: bool = True

    AUDITED: ClassVar[tuple[str, ...]] = ("enabled",)

    @classmethod
    def from_request(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        """Return the module that a request sets. Its secrets are encrypted with the encryption context `context`.

        Secrets that did not change keep their encrypted bytes from the earlier module `before`. Modules with secrets
        may raise aws.Unavailable.
        """
        return cls.of(values)


@dataclass(frozen=True, kw_only=True)
class Created(Stored):
    """The base class of the stored forms of resources with a time of creation."""

    created_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Described(Created):
    """The base class of the stored forms of resources with a description and metadata."""

    description: str = ""
    metadata: str = ""


@dataclass(frozen=True, kw_only=True)
class Traced(Described):
    """The stored form of a resource with its creator. `created_by` is the id of an API key, or `operator`.

    It is "" if the creator is unknown, as in records of 2.0.0, which lack the field.
    """

    created_by: str = ""

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_record().items() if value or name != "created_by"}


@dataclass(frozen=True, kw_only=True)
class Owned(Traced):
    """The stored form of a credential, owned by a user or bot."""

    owner_id: str = ""

    def references(self) -> References:
        return {"owner_id": [self.owner_id]}


def decode_each(form: type[S], stored_items: Iterable[Item]) -> Iterator[tuple[Item, S]]:
    """Yield items with their stored values. Malformed items are logged and left out."""
    for item in stored_items:
        try:
            yield item, decode(form, item)
        except MalformedRecord as malformed:
            decoding.report(item.scope, item.id, malformed)


def decode(form: type[S], item: Item) -> S:
    """Return the stored value of an item. Raises MalformedRecord."""
    if item.malformed:
        raise item.malformed
    return form.of(item.body)


def _audited_value(value: Any) -> Any:
    """Return the value of a field as audit events show it. Of a Stored value, events show only `AUDITED` fields."""
    if isinstance(value, Stored):
        return value.audited_fields()
    if isinstance(value, Mapping):
        return {name: _audited_value(entry) for name, entry in value.items()}
    return value


def _holds_stored(value: Any) -> bool:
    return isinstance(value, Stored) or (
        isinstance(value, Mapping) and any(isinstance(entry, Stored) for entry in value.values())
    )


def _merge(before: Any, value: Any) -> Any:
    """Return a field's value in the form of a record.

    Fields of the earlier record `before` that the value's class does not know are copied.
    """
    known = before if isinstance(before, Mapping) else {}
    if isinstance(value, Stored):
        return value.merge_into(known)
    if _holds_stored(value):
        return {name: _merge(known.get(name), entry) for name, entry in value.items()}
    return value


def body_of_change(item: Item, before: Stored, after: Stored) -> dict[str, Any]:
    """Return the body of a changed item. Fields with the same value before and after stay as they are stored."""
    if after == before:
        return item.body
    old, packed_values, new = vars(before), after.pack(), after.merge_into(item.body)
    changed = {name for name in packed_values if name not in item.body or old[name] != vars(after)[name]}
    return {**item.body, **{name: new[name] for name in changed}}


def keys_of_change(item: Item, before: Stored, after: Stored) -> tuple[UniqueKey, ...]:
    """Return the unique keys of a changed item.

    If the item already had a key, the returned key has only the attributes that the change modifies.
    """
    if after == before:
        return item.unique_keys
    known = {key: key.attributes for key in before.unique_keys(item.account, item.id)}
    former = {*before.former_keys(item.account, item.id)} & {*item.unique_keys}
    keys = [key for key in item.unique_keys if key not in known and key not in former]
    for key in after.unique_keys(item.account, item.id):
        if key not in known or (former and key not in item.unique_keys):
            keys.append(key)
        elif key in item.unique_keys:  # a user from version 2.0.0 has only one of two unique keys
            changed = {name: value for name, value in key.attributes.items() if value != known[key].get(name)}
            keys.append(replace(key, attributes=changed))
    return tuple(keys)
