"""Audit events: who changed what, when and from where. The transaction of a change also writes its event.

A query by resource or by actor reads an index, which may lag by a second. Any other query filters the newest events,
some hundreds for each page. So a page can be short although another page follows.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args

from chalicelib import clock, ids
from chalicelib.http import paging
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.paging import Page
from chalicelib.http.resource import Resource
from chalicelib.model.audit import reading, trail
from chalicelib.model.base import kinds, records
from chalicelib.model.base.kinds import Kind
from chalicelib.schema.fields import Shown, Timestamp
from chalicelib.schema.rules import After
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

_READ = 500  # the number of events that are read and filtered for one page


class Actor(Shape):
    """The actor of a change: an API key with its owner, the operator or the edge."""

    type: Literal["api_key", "federated", "operator", "edge"]
    """The type of the actor."""

    key_id: str
    """The API key of the request or the federated credential of the exchange, empty for the operator and the edge."""

    owner_id: str
    """The user or bot that owns the key or for which the exchange acted, empty for the operator and the edge."""

    name: str
    """The name that the owner of the key or the operator had at that time; empty for the edge."""


class AuditEvent(Shown):
    """One change of a resource, with its actor and source address. It contains no secrets and no free text."""

    model_config = {"json_schema_serialization_defaults_required": False}

    action: str
    """The kind of the resource, the module if one was changed, and the verb: `https_edge_route.oauth.replace`."""

    resource_id: str
    """The id of the resource that was created, changed or deleted."""

    resource_uri: str
    """Absolute URL of the resource or its module; empty if it has none, for example for an account."""

    actor: Actor
    """The actor of the change."""

    operation_id: str
    """The operation id, the same as in the response and the log; empty for the edge."""

    source_ip: str
    """The address of the client, or the host of the operator; empty for the edge."""

    created_at: Timestamp
    """When the change happened, RFC 3339."""

    changed: list[str]
    """The names of the fields and modules that were changed."""

    details: dict[str, Any]
    """Strings and lists of strings. For a creation or deletion: the limits, references and rights of the resource.
    For a change: `before` and `after`, each with the values that differ by their dotted paths. A long value is replaced
    by its digest.
    """

    revision: int = 0
    """The revision of the resource after the change; absent if unknown. It orders the events of one resource."""


def response(event: Item, base_url: str) -> dict[str, Any]:
    """Return the fields of a response about an audit event. Its URLs begin with `base_url`."""
    response = {"id": event.id, "uri": "", **trail.Event.of(event.body).to_record()}
    path = response.pop("resource_path")
    response["actor"] = asdict(trail.EventActor(**response["actor"]))
    has_address = path and kinds.identify(response["resource_id"]).served
    response["uri"] = f"{base_url}{kinds.AUDIT_EVENTS.path}/{event.id}"
    return {**response, "resource_uri": f"{base_url}{path}" if has_address else ""}


def _build_responses(items: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    return [response(item, call.base_url) for item in items]


def _normalize_time(text: str) -> str:
    return clock.rfc3339(clock.parse(text))


def _check_resource_id(text: str) -> str:
    if not any(kind.has(text) for kind in _SUBJECTS):
        raise ValueError("must be the id of a resource, for example usr_… or edghts_…")
    return text


def _check_actor_id(text: str) -> str:
    if not any(kind.has(text) for kind in _ACTORS):
        forms = "an API key (ak_…), a federated credential (fcred_…), a user (usr_…) or a bot (bot_…)"
        raise ValueError(f"must be the id of {forms}")
    return text


def _check_action(text: str) -> str:
    start, star, rest = text.partition("*")
    nouns = [kind.noun for kind in _SUBJECTS]
    if star and not rest and re.fullmatch("[a-z_.]*", start):
        if any(noun.startswith(start) or start.startswith(f"{noun}.") for noun in nouns):
            return text
    elif re.fullmatch(rf"({'|'.join(nouns)})([.][a-z_]+)?[.]({'|'.join(get_args(trail.Verb))})", text):
        return text
    raise ValueError(
        "must be an action, for example api_key.create, or the beginning of one and '*', for example ssh_*"
    )


_ACTORS = (kinds.API_KEYS, kinds.FEDERATED_CREDENTIALS, kinds.USERS, kinds.BOT_USERS)
_SUBJECTS = [kind for kind in kinds.TABLE if kind.name and kind is not kinds.AUDIT_EVENTS]


def _build_id_schema(of: Iterable[Kind]) -> dict[str, Any]:
    return {"type": "string", "pattern": ids.pattern(*(kind.prefix for kind in of))}


_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_PARAMETERS = {
    **paging.parameters(kinds.AUDIT_EVENTS),
    "resource_id": After(
        _check_resource_id, {**_build_id_schema(_SUBJECTS), "description": "Only events of the resource with this id."}
    ),
    "actor_id": After(
        _check_actor_id,
        {**_build_id_schema(_ACTORS), "description": "Only events of this API key, federated credential, user or bot."},
    ),
    "action": After(
        _check_action,
        {
            "type": "string",
            "pattern": "^[a-z_.]+[*]?$|^[*]$",
            "description": "Only events of this action, for example `api_key.create`, or with this prefix: `ssh_*`.",
        },
    ),
    "after": After(_normalize_time, {**_TIME, "description": "Only events at or after this time, RFC 3339."}),
    "before": After(_normalize_time, {**_TIME, "description": "Only events before this time, RFC 3339."}),
}


class AuditEvents(Resource):
    """Audit events. Query parameters can filter their list."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        listing, *endpoints = super().endpoints()
        return (listing._replace(query=_PARAMETERS), *endpoints)

    def get(self, call: Call) -> Item:
        event = reading.read(call.caller.account, call.id)
        if event is None:
            raise self.missing()
        return event

    def list_page(self, call: Call) -> str:
        filters = dict(call.query)
        page = Page(**{name: filters.pop(name) for name in ("before_id", "limit") if name in filters})
        items, last_id, has_more = self._find_page(call, filters, page)
        uri = f"{call.base_url}{self.path(call)}"
        parameters = {name: call.query[name] for name in filters}
        entries = self.responses(items, call)
        return paging.text(self.kind.array, entries, last_id, uri, page, has_more=has_more, query=parameters)

    def _find_page(self, call: Call, filters: Mapping[str, str], page: Page) -> tuple[list[Item], str, bool]:
        """Return the events on a page. Also return the id of the last event that was read, and whether more follow.

        `filters` are the filters: query parameters with their values.
        """
        account, before = call.caller.account, page.before_id
        if not filters:
            items, has_more = reading.read_page(account, before=before, count=page.limit)
            return items, items[-1].id if items else "", has_more
        count, index_page = page.limit if len(filters) == 1 else _READ, None
        if resource := filters.get("resource_id"):
            index_page = reading.read_page_of_resource(account, resource, before=before, count=count)
        elif actor := filters.get("actor_id"):
            index_page = reading.read_page_of_actor(account, actor, before=before, count=count)
        candidates, has_more = index_page or reading.read_page(account, before=before, count=_READ)
        decoded = [*records.decode_each(trail.Event, candidates)]
        matching = [item for item, event in decoded if _matches(event, filters)]
        if len(matching) > page.limit:
            return matching[: page.limit], matching[page.limit - 1].id, True
        is_past_start = bool(decoded) and "after" in filters and decoded[-1][1].created_at < filters["after"]
        return matching, candidates[-1].id if candidates else "", has_more and not is_past_start


def _is_of(action: str, pattern: str | None) -> bool:
    """Return whether the query parameter `pattern` selects an action, such as "api_key.create".

    A star at the end of `pattern` matches any text. Without the parameter, every action is selected.
    """
    if pattern is None or not pattern.endswith("*"):
        return pattern in (None, action)
    return action.startswith(pattern[:-1])


def _matches(event: trail.Event, filters: Mapping[str, str]) -> bool:
    actor = filters.get("actor_id")
    return (
        (actor is None or actor in (event.actor.get("key_id"), event.actor.get("owner_id")))
        and _is_of(event.action, filters.get("action"))
        and filters.get("resource_id", event.resource_id) == event.resource_id
        and filters.get("after", "") <= event.created_at
        and ("before" not in filters or event.created_at < filters["before"])
    )


RESOURCE = AuditEvents(kind=kinds.AUDIT_EVENTS, stored=trail.Event, response=AuditEvent, to_responses=_build_responses)
