"""The typed form of what is stored: frozen dataclasses, whose defaults stand in for what an older record lacks.

A field is added with a default. A record written before shows it at once, and `migrate` writes it down.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

from chalicelib.storage import decoding, places
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

References = Mapping[str, Iterable[str]]  # the ids that each field holds


class Packing(Protocol):
    """The two ways of one form of text: to bytes, and back to the same text."""

    def packed(self, text: str) -> bytes | str:
        """Return the bytes of a text, or the text where they do not say all of it."""

    def text(self, kept: bytes | str) -> str:
        """Return the text of what `packed` returned."""


@dataclass(frozen=True)
class Ending:
    """What the end of an item adds: details of its audit event, and writes."""

    details: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[Write] = ()


class LimitReached(Exception):
    """A change met a limit of its account."""

    def make_room(self) -> bool:
        """Return whether the change can be tried again. Raises aws.Unavailable."""
        return False


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The base of every stored value, of a resource or a module. Its secrets are sealed: `vault` opens them.

    `AUDITED` are the fields that audit events show: limits, references and rights, never a secret or free text. Of a
    nested stored value, only its own `AUDITED` fields are shown. `PACKED` fields are stored as bytes. `IS_SHOWN_ONCE`
    is set if the response to a creation shows a secret that no other response shows.
    """

    AUDITED: ClassVar[tuple[str, ...]] = ()
    PACKED: ClassVar[Mapping[str, Packing]] = {}
    IS_SHOWN_ONCE: ClassVar[bool] = False

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the value of a record of any age. What it lacks has its default, unknown fields are ignored.

        Raises MalformedRecord if a field is not of its annotated type.
        """
        return decoding.decode(cls, record)

    def to_record(self) -> dict[str, Any]:
        """Return the value as its record keeps it, but for the texts that are `packed`."""
        return dict(vars(self))

    def packed(self) -> dict[str, Any]:
        """Return the value as its record keeps it: since the third edition some texts are bytes."""
        record = self.to_record()
        if not self.PACKED or places.edition() < 3:
            return record
        return {**record, **{name: packing.packed(record[name]) for name, packing in self.PACKED.items()}}

    def over(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of this value in the place of an earlier one, whose unknown fields stay."""
        own = {field.name for field in fields(self)}
        unknown = {name: value for name, value in record.items() if name not in own}
        return {**unknown, **{name: _over(record.get(name), value) for name, value in self._with_values().items()}}

    def _with_values(self) -> dict[str, Any]:
        """Return the packed record, in which fields of stored values hold these values themselves."""
        return {
            name: getattr(self, name) if _holds_stored(getattr(self, name)) else value
            for name, value in self.packed().items()
        }

    @classmethod
    def completed(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record with the fields that it lacks, as `of` reads them."""
        return cls.of(record).over(record)

    def audited_fields(self) -> dict[str, Any]:
        """Return the fields that audit events show; of sealed bytes they show only that there are some."""
        return {name: _audited(getattr(self, name)) for name in self.AUDITED}

    def references(self) -> References:
        """Return by field the ids of other resources, which must exist where references are strict."""
        return {}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the values that no other resource may have; `account` and `id` are those of the resource itself."""
        return ()

    def former_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the keys of an earlier format, which the next change replaces."""
        return ()

    @classmethod
    def prepare(cls, before: Item | None, after: Item | None, writes: Sequence[Write]) -> Sequence[Write]:
        """Return what the transaction of a changed item needs besides the item's own writes.

        `before` is None for a new item, `after` for a removed one. What must be stored even if the transaction fails
        is written here. Called again when the transaction is tried again. Raises aws.Unavailable.
        """
        return ()

    @classmethod
    def ending(cls, item: Item) -> Ending | None:
        """Return what goes with the end of an expired item, or None for a kind whose end is not recorded."""
        return None


S = TypeVar("S", bound=Stored)


@dataclass(frozen=True, kw_only=True)
class Created(Stored):
    """The stored form of a resource with a time of creation."""

    created_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Described(Created):
    """The stored form of a resource with a description and metadata."""

    description: str = ""
    metadata: str = ""


@dataclass(frozen=True, kw_only=True)
class Traced(Described):
    """The stored form of what says who made it: the id of an API key, `operator`, or "" where nobody knows.

    The record has none then, as those of earlier editions.
    """

    created_by: str = ""

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_record().items() if value or name != "created_by"}


@dataclass(frozen=True, kw_only=True)
class Owned(Traced):
    """The stored form of a credential, which a user or bot owns."""

    owner_id: str = ""

    def references(self) -> References:
        return {"owner_id": [self.owner_id]}


def decoded(form: type[S], found: Iterable[Item]) -> Iterator[tuple[Item, S]]:
    """Yield items with their stored values. Those that cannot be decoded are logged and left out."""
    for item in found:
        try:
            yield item, decode(form, item)
        except MalformedRecord as malformed:
            decoding.report(item.scope, item.id, malformed)


def decode(form: type[S], item: Item) -> S:
    """Return the stored value of an item. Raises MalformedRecord."""
    if item.malformed:
        raise item.malformed
    return form.of(item.body)


def _audited(value: Any) -> Any:
    """Return what audit events show of a field: of a stored value its own `AUDITED`."""
    if isinstance(value, Stored):
        return value.audited_fields()
    if isinstance(value, Mapping):
        return {name: _audited(entry) for name, entry in value.items()}
    return value


def _holds_stored(value: Any) -> bool:
    return isinstance(value, Stored) or (
        isinstance(value, Mapping) and any(isinstance(entry, Stored) for entry in value.values())
    )


def _over(before: Any, value: Any) -> Any:
    """Return the record of a field's value in the place of an earlier record of it."""
    known = before if isinstance(before, Mapping) else {}
    if isinstance(value, Stored):
        return value.over(known)
    if _holds_stored(value):
        return {name: _over(known.get(name), entry) for name, entry in value.items()}
    return value


def body_of_change(item: Item, before: Stored, after: Stored) -> dict[str, Any]:
    """Return the body of a changed item; what did not change stays as its edition wrote it."""
    if after == before:
        return item.body
    old, new = vars(before), after.packed()
    return {**item.body, **{name: new[name] for name in new if name not in item.body or old[name] != vars(after)[name]}}


def keys_of_change(item: Item, before: Stored, after: Stored) -> tuple[UniqueKey, ...]:
    """Return the unique keys of a changed item; one that it had before has only those attributes that changed."""
    if after == before:
        return item.unique_keys
    known = {key: key.attributes for key in before.unique_keys(item.account, item.id)}
    former = {*before.former_keys(item.account, item.id)} & {*item.unique_keys}
    keys = [key for key in item.unique_keys if key not in known and key not in former]
    for key in after.unique_keys(item.account, item.id):
        if key not in known or (former and key not in item.unique_keys):
            keys.append(key)
        elif key in item.unique_keys:  # an authority of the first edition has none until it is migrated
            changed = {name: value for name, value in key.attributes.items() if value != known[key].get(name)}
            keys.append(replace(key, attributes=changed))
    return tuple(keys)
