"""Lists of the operator, for example of banned patterns and blocked networks. Their changes have audit events."""

from dataclasses import dataclass, replace

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.audit import trail
from chalicelib.model.base import records
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.base.records import Created
from chalicelib.model.changes import Change
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item


@dataclass(frozen=True, kw_only=True)
class Entry(Created):
    """The stored form of an entry in a list of the operator."""

    reason: str = ""


@dataclass(frozen=True)
class OperatorList:
    """A list of texts. The partition key of the list ends with `path`.

    The actions of audit events about the list are `<noun>.create` and `<noun>.delete`.
    """

    path: str
    noun: str

    def add(self, text: str) -> None:
        """Add a text to the list, or replace the text's entry. Raises aws.Unavailable."""
        body = Entry(created_at=clock.rfc3339(clock.now()), reason=trail.reason()).to_record()
        change = Change(trail.OPERATOR).add(trail.operator_event(f"{self.noun}.create", text))
        before = table.find(self._scope, text)
        if before and before.body:
            change.rewrite(before, lambda item: replace(item, body={**item.body, **body})).commit()
        else:
            change.add(Write.put(Item(self._scope, text, body).to_record())).commit()

    def remove(self, text: str) -> bool:
        """Remove a text from the list. Return False if the list does not contain it. Raises aws.Unavailable."""
        change = Change(trail.OPERATOR).add(trail.operator_event(f"{self.noun}.delete", text))
        return changes.delete(change, self._scope, text)

    def entries(self) -> list[tuple[str, Entry]]:
        """Return all texts in the list, sorted, with their entries. One query.

        Raises aws.Unavailable. Raises MalformedRecord for a malformed entry: without this entry, the caller would admit
        clients or names that the operator has excluded.
        """
        sorted_items = sorted(table.list_all(self._scope), key=lambda item: item.id)
        return [(item.id, records.decode(Entry, item)) for item in sorted_items]

    @property
    def _scope(self) -> str:
        return items.scope(EDGE, self.path)
