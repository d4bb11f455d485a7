"""Resources with an owner, a user or bot. Lists can be filtered by owner: then a page can be short or even empty."""

from collections.abc import Callable
from dataclasses import replace

from chalicelib.http import paging
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Forbidden
from chalicelib.http.paging import Page
from chalicelib.http.resource import EditableResource
from chalicelib.schema.fields import OWNER
from chalicelib.schema.rules import After
from chalicelib.storage.records.items import Item

_READ = 500  # the number of items that are read and filtered for one page
_ABOUT = (
    "Only resources that this user or bot owns, or certificates that they requested. "
    "A page may be short or empty although `next_page_uri` is not null."
)
_OWNER_ID = After(OWNER.check, {"type": "string", **OWNER.json_schema, "description": _ABOUT})


class OwnedResource(EditableResource):
    """A kind of resource with an owner. A certificate's owner, who requested it, is stored but not shown."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        listing, *endpoints = super().endpoints()
        return (listing._replace(query={**listing.query, "owner_id": _OWNER_ID}), *endpoints)

    def list_page(self, call: Call) -> str:
        selects = self.selection(call)
        if selects is None:
            return super().list_page(call)
        query = dict(call.query)
        page = Page(query.pop("before_id", None), query.pop("limit", Page.limit))
        candidates, has_more = self.list_items(call, replace(page, limit=_READ))
        matches = [item for item in candidates if selects(item)]
        items, is_cut = matches[: page.limit], len(matches) > page.limit
        covered_items = items if is_cut else candidates
        return paging.text(
            self.kind.array,
            self.responses(items, call),
            paging.find_last_id(covered_items),
            f"{call.base_url}{self.path(call)}",
            page,
            has_more=is_cut or has_more,
            query=query,
        )

    def selection(self, call: Call) -> Callable[[Item], bool] | None:
        """Return the requested filter by owner. Return None if the list shows every item."""
        owner = call.query.get("owner_id")
        return (lambda item: owner_of(item) == owner) if owner else None


def require_owner(call: Call, item: Item) -> None:
    """Raise Forbidden if the caller changes an item of another owner without the right to do so."""
    if call.method != "GET" and not call.caller.acts_for_all and owner_of(item) != call.caller.id:
        raise Forbidden("Only an admin may change what another user or bot owns.")


def owner_of(item: Item) -> str | None:
    """Return the id of an item's owner. Return None for a certificate of an early release, which stored no owner."""
    return item.body.get("owner_id") or item.unseen.get("owner_id")
