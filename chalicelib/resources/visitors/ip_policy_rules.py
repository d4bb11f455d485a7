"""Rules of IP policies. A rule allows or denies the visitors of a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from chalicelib.http import messages
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem
from chalicelib.http.errors import Conflict, InvalidRequest, UnknownReference
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.base import kinds, records
from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import MAX_RULES, IpPolicyRule, TooManyRules
from chalicelib.schema.fields import DescribedShape, Ref, Shown
from chalicelib.schema.rules import After, id_of, if_empty, unless_blank
from chalicelib.storage.records import table, writes
from chalicelib.storage.records.items import Item

_CIDR = r"[0-9A-Fa-f:.]{1,45}(/[0-9]{1,3})?"


def _check_cidr(text: str) -> str:
    if not re.fullmatch(_CIDR, text):
        raise ValueError("must be an IP address or a network in CIDR notation")
    ip_policies.parse_cidr(text)
    return text


Cidr = Annotated[str, After(_check_cidr, {"format": "network"})]


class IPPolicyRuleChange(DescribedShape):
    cidr: Annotated[Cidr, unless_blank] = ""
    """An IPv4 or IPv6 address, or a network in CIDR notation with host bits zero. An IPv4-mapped IPv6 address is the
    IPv4 address."""


class IPPolicyRuleCreate(DescribedShape):
    cidr: Cidr
    """An IPv4 or IPv6 address, or a network in CIDR notation with host bits zero. An IPv4-mapped IPv6 address is the
    IPv4 address."""

    ip_policy_id: Annotated[str, id_of("ip_policy_id")]
    f"""The policy of the rule, which has at most {MAX_RULES} rules."""

    action: Annotated[Literal["allow", "deny"] | None, if_empty(None)] = None
    """Whether visitors with these addresses are allowed or denied. Required unless the policy has an action."""


class IPPolicyRule(DescribedShape, Shown):
    """A rule of an IP policy, which allows or denies visitors by their address."""

    cidr: str
    """The address or network, as it was sent."""

    ip_policy: Ref
    """The policy of the rule."""

    action: Literal["allow", "deny"]
    """Whether visitors with these addresses are allowed or denied."""


class IPPolicyRules(EditableResource):
    """Rules of IP policies. The record of each policy contains copies of the policy's rules."""

    def post(self, call: Call) -> CreatedItem:
        item, new = self.new(call.caller, call.body, scope=self.scope(call))

        def attempt() -> None:
            policy = _find_policy(call.caller, call.body.ip_policy_id)
            call.change.put(item).add(*ip_policies.put_copy(policy, item)).commit()

        try:
            writes.retry(attempt)
        except TooManyRules:
            raise Conflict(f"The policy already has {MAX_RULES} rules, the maximum: delete one first.") from None
        return CreatedItem(item, new.once)

    def patch(self, call: Call) -> Item:
        change = self.guard(call)

        def attempt() -> Item | None:
            rule = table.read(self.scope(call), call.id)
            if rule is None:
                raise self.missing()
            return ip_policies.change_rule(change, rule, self.apply_changes(rule, call.body))

        item = writes.retry(attempt)
        if item is None:
            raise self.missing()
        return item


def make(caller: Caller, id: str, request: IPPolicyRuleCreate) -> New:
    """Return a new rule. Raises UnknownReference, InvalidRequest, aws.Unavailable."""
    policy = _find_policy(caller, request.ip_policy_id)
    action = request.action or policy.body.get("action")
    if not action:
        raise InvalidRequest.of({"action": "must be 'allow' or 'deny', since the policy has no action"})
    return New(IpPolicyRule.of({**request.values(), "action": action}))


def _find_policy(caller: Caller, id: str) -> Item:
    policy = ip_policies.find_policy(caller.account, id)
    if policy is None:
        rule = f"must be an id listed at {kinds.IP_POLICIES.path}"
        raise UnknownReference("'ip_policy_id' names no IP policy of this account.", {"ip_policy_id": rule})
    return policy


def _build_responses(items: Sequence[Item], call: Call) -> Iterable[dict[str, Any]]:
    for item in items:
        rule = records.decode(IpPolicyRule, item)
        yield {
            "id": item.id,
            "uri": f"{call.base_url}{item.path}/{item.id}",
            "created_at": rule.created_at,
            "description": rule.description,
            "metadata": rule.metadata,
            "cidr": rule.cidr,
            "ip_policy": messages.ref(call.base_url, rule.ip_policy_id),
            "action": rule.action,
        }


RESOURCE = IPPolicyRules(
    kind=kinds.IP_POLICY_RULES,
    stored=IpPolicyRule,
    create=IPPolicyRuleCreate,
    change=IPPolicyRuleChange,
    response=IPPolicyRule,
    to_responses=_build_responses,
    make=make,
    remove=ip_policies.remove_rule,
    errors={"POST": (UnknownReference, Conflict)},
)
