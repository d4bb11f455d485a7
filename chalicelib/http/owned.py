"""Kinds that can be listed by their owner. A page of such a list may be short or empty."""

from chalicelib.http import paging
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.paging import Page
from chalicelib.http.resource import EditableResource
from chalicelib.schema.fields import OWNER
from chalicelib.schema.rules import After
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item

_READ = 500  # items that one page picks from
_ABOUT = (
    "Only resources that this user or bot owns, or certificates that they requested. The newest entries are filtered: "
    "a page may be short or empty although `next_page_uri` is not null."
)
_OWNER_ID = After(OWNER.check, {"type": "string", **OWNER.json_schema, "description": _ABOUT})


class OwnedResource(EditableResource):
    """A kind whose resources have owners, or certificates with a requester that is not shown."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        listing, *others = super().endpoints()
        return (listing._replace(query={**listing.query, "owner_id": _OWNER_ID}), *others)

    def list_page(self, call: Call) -> str:
        sent = dict(call.query)
        owner = sent.pop("owner_id", None)
        if owner is None:
            return super().list_page(call)
        page = Page(**sent)
        read, has_more = table.page(self.scope(call), before=page.before_id, count=_READ)
        own = [item for item in read if _owner_of(item) == owner]
        found, is_cut = own[: page.limit], len(own) > page.limit
        reached = found if is_cut else read
        return paging.text(
            self.kind.array,
            self.responses(found, call),
            paging.last(reached),
            f"{call.base_url}{self.path(call)}",
            page,
            has_more=is_cut or has_more,
            others={"owner_id": owner},
        )


def _owner_of(item: Item) -> str | None:
    """Return the owner in a record, None for certificates from before owners were recorded."""
    return item.body.get("owner_id") or item.unseen.get("owner_id")
