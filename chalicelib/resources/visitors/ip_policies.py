"""IP policies: sets of rules about addresses. An edge or route uses the policies that its module `ip_restriction`
names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.base import kinds
from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import MAX_POLICIES, IpPolicy
from chalicelib.model.limits import item_counts
from chalicelib.schema.fields import DescribedShape, Shown
from chalicelib.schema.rules import if_empty
from chalicelib.schema.shapes import ABSENT

_Action = Annotated[Literal["allow", "deny"] | None, if_empty(None)]


class IPPolicyCreate(DescribedShape):
    action: _Action = None
    """The action of new rules of the policy that have no action in their request."""


class IPPolicy(DescribedShape, Shown):
    """Rules about the addresses of visitors. A visitor passes the policies of a module if at least one of their allow
    rules matches the visitor's address, and none of their deny rules does. A policy without rules admits no visitor."""

    action: Literal["allow", "deny"] = ABSENT
    """The action of new rules of the policy that have no action in their request; absent if unset."""


def make(caller: Caller, id: str, request: IPPolicyCreate) -> New:
    """Return a new policy. Raises Conflict, aws.Unavailable."""
    stored = IpPolicy(description=request.description, metadata=request.metadata, action=request.action or "")
    message = f"An account has at most {MAX_POLICIES} IP policies."
    return New(stored, also=(item_counts.add(caller.account, kinds.IP_POLICIES.path, MAX_POLICIES, message),))


RESOURCE = EditableResource(
    kind=kinds.IP_POLICIES,
    stored=IpPolicy,
    create=IPPolicyCreate,
    response=IPPolicy,
    make=make,
    remove=ip_policies.remove_policy,
    errors={"POST": (Conflict,), "DELETE": (Conflict,)},
)
