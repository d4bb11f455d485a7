"""Validates the records of an export, and translates them for the account into which they are imported.

An edited file must not change other accounts or the service. So each record must belong to the exported account. A
unique key (the record that makes a value such as a name unique) must belong to an item of the account.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock
from chalicelib.model.base import kinds
from chalicelib.model.base.switches import WITHOUT_KEY
from chalicelib.model.edges import ip_policies
from chalicelib.model.tenants.portable import Exported, NotAnExport
from chalicelib.model.tenants.record_classes import ACCOUNT
from chalicelib.storage.records import item_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

Record = Mapping[str, Any]
ItemKey = tuple[str, str]
_FREE_TEXT = ("description", "metadata")
_OWNED = re.compile(ACCOUNT)
_CHANGED = "the account changed during the export. Disable the account and export it again."
_WITH_PRIVATE_KEY = (kinds.SSH_CERTIFICATE_AUTHORITIES, kinds.TLS_CERTIFICATES)


@dataclass
class Arrivals:
    """The result of validating an export. `lost` describes the secrets that must be created again after the import."""

    account: str
    # Pairs of a unique key's partition key and the path of an item with this unique key. `claims` comes from the items,
    # `owners` from the records of unique keys. The export is invalid if the two sets differ.
    claims: set[tuple[str, str, str]] = field(default_factory=set)
    owners: set[tuple[str, str, str]] = field(default_factory=set)
    # Rules of IP policies. `copies` comes from the policies, which contain copies of their rules. `rules` comes from
    # the rules themselves. The export is invalid if the two sets differ.
    copies: set[tuple[str, str, str]] = field(default_factory=set)
    rules: set[tuple[str, str, str]] = field(default_factory=set)
    lists: set[str] = field(default_factory=set)  # partition keys of the revocation lists in the export
    chunks: set[str] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)

    def check(self, exported: Exported) -> None:
        """Check that a record is valid and belongs to the exported account. Raises NotAnExport."""
        record = exported.record
        key = f"{record['scope']} {record['id']}"
        try:
            self._check(exported)
        except MalformedRecord as malformed:
            raise NotAnExport(f"The record {key} is malformed. {malformed}") from None
        except (LookupError, TypeError, AttributeError, ValueError):
            raise NotAnExport(
                f"The record {key} is malformed: a field is missing or has a wrong type. Import the unchanged export."
            ) from None

    def complete(self) -> None:
        """Check that all records match each other: items and unique keys, IP policies and rules. Raises NotAnExport."""
        if self.chunks - self.lists:
            raise NotAnExport(
                f"The export has revocations of the authority {min(self.chunks - self.lists)}, but not its revocation "
                "list. Export again."
            )
        if differing := self.claims ^ self.owners:
            scope, path, _ = min(differing)
            raise NotAnExport(f"The unique key {scope} does not match the resource at {path}: {_CHANGED}")
        if differing := self.copies ^ self.rules:
            policy, rule, _ = min(differing)
            raise NotAnExport(f"The IP policy {policy} does not match its rule {rule}: {_CHANGED}")

    def _check(self, exported: Exported) -> None:
        record, scope, id = exported.record, exported.record["scope"], exported.record["id"]
        if exported.record_class.name == "chunk of revocations":
            self.chunks.add(scope)
            return
        if {*_OWNED.findall(" ".join(_owners(record)))} != {self.account}:
            raise NotAnExport(f"The record {scope} {id} does not belong to {self.account}.")
        if exported.record_class.removal == "list":
            self.lists.add(scope)
        elif id == "claim":
            self.owners |= {(scope, path, "") for path in _owner_paths(record)}
        elif scope.startswith(f"{self.account}#") or id == self.account:
            self._check_item(exported)

    def _check_item(self, exported: Exported) -> None:
        item = Item.from_record(exported.record)
        if item.malformed:
            raise item.malformed
        kind = kinds.ACCOUNTS if item.id == self.account else kinds.find_by_path(_generalize(item.path))
        if kind is None or not kind.has(item.id):
            return
        if item.body:
            kind.stored_type.of(item.body)
        for name, module in item.modules.items():
            kinds.find_module_type(name).of(module)
        if exported.record_class.portability == "portable" and kind is not kinds.ACCOUNTS:
            path = f"{item.path}/{item.id}"
            self.claims |= {(key.scope, path, "") for key in item.unique_keys}
        if kind is kinds.IP_POLICIES:
            self.copies |= ip_policies.list_copies(item)
        elif kind is kinds.IP_POLICY_RULES:
            self.rules |= ip_policies.list_copies(item)
        self.lost += _list_lost(kind, item)


def translate(record: Record, old: str, new: str) -> dict[str, Any]:
    """Return a record in which another account's id replaces the exported one, except in free text."""
    copy: dict[str, Any] = _translate_value(record, old, new)
    item = item_keys.find_item(copy["scope"], copy["id"])
    kind = kinds.find_by_path(_generalize(item[0].partition("#")[2]))
    if kind in _WITH_PRIVATE_KEY and kind.has(item[1]):
        copy["unseen"] = {**copy.get("unseen", {}), WITHOUT_KEY: True}
    return copy


def is_due(record: Record) -> bool:
    """Return whether a record has not expired yet."""
    return bool(record.get("expires", clock.seconds() + 1) > clock.seconds())


def _translate_value(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {
            _translate_value(name, old, new): member if name in _FREE_TEXT else _translate_value(member, old, new)
            for name, member in value.items()
        }
    if isinstance(value, set | frozenset):
        return {_translate_value(member, old, new) for member in value}
    return [_translate_value(member, old, new) for member in value] if isinstance(value, list) else value


def _owners(record: Record) -> Iterator[str]:
    """Yield the values of the attributes in which a record names its account."""
    body = record.get("body", {})
    yield from (record["scope"], record["id"], record.get("home", ""), record.get("account", ""))
    yield str(body.get("account", "")) if isinstance(body, Mapping) else ""


def _owner_paths(record: Record) -> Iterable[str]:
    """Return the paths of the items to which the record of a unique key refers."""
    owner_paths = [f"{record['home'].partition('#')[2]}/{record['holder']}"] if record.get("holder") else []
    return [*owner_paths, *record.get("sharers", ())]


def _generalize(path: str) -> str:
    """Return the path of a list of items with variables in place of ids, in the form that `Kind.path` has."""
    for kind in kinds.TABLE:
        if kind.path and re.fullmatch(re.sub(r"{\w+}", "[^/]+", kind.path), path):
            return kind.path
    return path


def _list_lost(kind: kinds.Kind, item: Item) -> Iterator[str]:
    """Yield a text about each secret of an item. Exports do not contain secrets."""
    about = f"{item.id} {item.body.get('description', '')}".rstrip()
    if kind is kinds.API_KEYS:
        yield f"API key {about} of {item.body.get('owner_id', '')}"
    elif kind in _WITH_PRIVATE_KEY:
        yield f"private key of the {kind.name} {about}"
    for name, provider in item.modules.get("oauth", {}).get("provider", {}).items():
        if provider and provider.get("client_id"):
            yield f"client secret of {name} in the module oauth of the route {item.id}"
    if "basic_auth" in item.modules:
        yield f"passwords of the module basic_auth of {kind.name} {item.id}"
    if "webhook_verification" in item.modules:
        yield f"secret of the module webhook_verification of the route {item.id}"
