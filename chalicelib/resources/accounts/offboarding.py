"""Offboarding: `POST …/offboard` of users, bots, API keys and federated credentials."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Conflict, Forbidden
from chalicelib.http.resource import Resource
from chalicelib.model.base import kinds
from chalicelib.resources.owned import owner_of
from chalicelib.schema.rules import if_empty
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records import table

if TYPE_CHECKING:
    from chalicelib.model.offboarding.offboarding import OffboardingResult


class _Offboard(Shape):
    certificates: Annotated[Literal["revoke", "keep"], if_empty("revoke")] = "revoke"
    """`revoke`: revokes SSH user certificates that have not ended. `keep`: keeps them. SSH host certificates are always
    kept."""


class OwnerOffboard(_Offboard):
    others: Annotated[Literal["end", "keep"], if_empty("keep")] = "keep"
    """`end`: resources that the keys made for another user or bot end too. `keep`: they continue."""


class MakerOffboard(_Offboard):
    others: Annotated[Literal["end", "keep"], if_empty("end")] = "end"
    """`end`: resources of another user or bot than the owner of their maker end too. `keep`: they continue."""


class KeptResource(Shape):
    """A resource that offboarding has kept."""

    id: str
    """Its id."""

    owner_id: str
    """The user or bot that owns the resource; empty if it has no owner."""


class OffboardingReport(Shape):
    """The result of one call of `offboard`. A repeated call continues, and its report counts only its own changes."""

    complete: bool
    """True: everything has ended. False: repeat the call."""

    retry_after: int
    """The seconds to wait before the next call."""

    keys: int
    """The number of API keys that were deleted."""

    ssh_credentials: int
    """The number of SSH credentials that were deleted."""

    certificates: int
    """The number of SSH user certificates that were revoked."""

    federated_credentials: int
    """The number of federated credentials that were disabled."""

    kept: list[KeptResource]
    """Up to 100 resources that were kept."""

    kept_more: int
    """The number of further resources that were kept."""


def endpoint(resource: Resource, body: type[Shape], *, for_owners: bool = False) -> Endpoint:
    """Return the endpoint `POST …/offboard` of a resource.

    Only admins may use it. With `for_owners`, the owner of the resource may use it too.
    """

    def offboard(call: Call) -> dict[str, Any]:
        # imported here, because the import takes long and other requests do not need it
        from chalicelib.model.offboarding import offboarding
        from chalicelib.model.offboarding.tree_ends import Choice

        if not call.caller.admin:
            _check_owner(resource, call)
        choice = Choice(call.body.others, call.body.certificates)
        # Ignore the idempotency key of the request. With it, a repeated request would get the first response again,
        # although it must continue offboarding.
        change = replace(call.change, request=None)
        report = offboarding.offboard(change, call.caller.account, call.id, choice)
        if report is None:
            raise resource.missing()
        return to_json(report)

    path, permits = f"{resource.kind.item_path}/offboard", None if for_owners else _permit
    options = {"body": body, "response": OffboardingReport, "errors": (Forbidden, Conflict), "permits": permits}
    return resource.endpoint("POST", path, 200, offboard, show=None, **options)


def to_json(report: OffboardingResult) -> dict[str, Any]:
    """Return a report of offboarding as the JSON of a response."""
    counters = {
        "keys": kinds.API_KEYS,
        "ssh_credentials": kinds.SSH_CREDENTIALS,
        "certificates": kinds.SSH_USER_CERTIFICATES,
        "federated_credentials": kinds.FEDERATED_CREDENTIALS,
    }
    return {
        "complete": report.complete,
        "retry_after": report.retry_after,
        **{name: report.ended.get(kind, 0) for name, kind in counters.items()},
        "kept": [{"id": id, "owner_id": owner} for id, owner in report.kept.items()],
        "kept_more": report.kept_more,
    }


def _permit(caller: Caller) -> None:
    caller.require_admin("offboard users, bots and federated credentials")


def _check_owner(resource: Resource, call: Call) -> None:
    """Raise NotFound if the resource does not exist, Forbidden if the caller does not own it."""
    item = table.find(resource.scope(call), call.id)
    if item is None:
        raise resource.missing()
    if owner_of(item) != call.caller.id:
        raise Forbidden("Only an admin may offboard the key of another user or bot.")
