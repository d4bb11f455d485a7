"""IP policies and their rules, which allow or deny visitors by their address.

A policy's record has a copy of its rules, so that the edge gets all rules by one read. The number of rules is limited.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Described
from chalicelib.model.changes import Change
from chalicelib.model.edges import policy_expressions
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.policy_expressions import AnyOf, ClientIn, Condition, Constant, Network, Not, count_networks
from chalicelib.model.edges.policy_tokens import UnsupportedPolicy
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import InUse

MAX_POLICIES = 100  # the most policies of an account
MAX_RULES = 100  # the most rules of a policy
# The most networks of an edge. The networks of the edge's module `ip_restriction` count once for each route.
MAX_NETWORKS = 2000
REFUSE_ALL = (Constant(True),)
TOO_MANY = (
    f"The IP policies of the edge and its routes have more than {MAX_NETWORKS:,} networks: no visitor is admitted."
)
ALLOW, DENY = "allow", "deny"
Action = Literal["allow", "deny"]
_RULES = "rules"  # the field of a policy's record with the copies of its rules: "<action> <network>" by the rule's id


class TooManyRules(Exception):
    """The policy already has MAX_RULES rules."""


@dataclass(frozen=True, kw_only=True)
class IpPolicy(Described):
    """The stored form of an IP policy. `action` is the default for new rules, or ""."""

    action: Literal["", "allow", "deny"] = ""

    AUDITED = ("action",)

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value or name != "action"}

    def audited_fields(self) -> dict[str, Any]:
        return {name: value for name, value in super().audited_fields().items() if value}


@dataclass(frozen=True, kw_only=True)
class IpPolicyRule(Described):
    """The stored form of a rule: an action for the addresses of a network."""

    ip_policy_id: str
    cidr: str
    action: Action

    AUDITED = ("ip_policy_id", "cidr", "action")


@dataclass(frozen=True)
class Rules:
    """The networks of a policy's rules, by the action of the rule."""

    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()


@dataclass(frozen=True)
class ServedPolicy:
    """An IP policy, as the edge enforces it. `rules` is None if its record is malformed."""

    account: str
    id: str
    rules: Rules | None

    @classmethod
    def of(cls, item: Item) -> "ServedPolicy":
        """Return the IP policy that an item stores. Raises MalformedRecord."""
        records.decode(IpPolicy, item)
        return cls(item.account, item.id, _read_rules(item))


_NO_RULES = Rules()
_GONE = "The IP policy {} does not exist: no visitor is admitted."
_MALFORMED = "The record of the IP policy {} is malformed: no visitor is admitted."


def parse_cidr(text: str) -> Network:
    """Return the network in a rule's `cidr`. An IPv4-mapped network becomes an IPv4 network. Raises ValueError."""
    try:
        return policy_expressions.parse_network(text)
    except UnsupportedPolicy:
        raise ValueError("must be an IP address, or a network in CIDR notation with host bits zero") from None


def _read_rules(policy: Item) -> Rules:
    """Return the rules in the record of a policy. Raises MalformedRecord."""
    networks_by_action: dict[str, list[Network]] = {ALLOW: [], DENY: []}
    copies = policy.unseen.get(_RULES, {})
    try:
        for copy in copies.values():
            action, _, cidr = copy.partition(" ")
            networks_by_action[action].append(parse_cidr(cidr))
    except (AttributeError, KeyError, ValueError):
        raise MalformedRecord(IpPolicy.__name__, _RULES, "is malformed") from None
    return Rules(*(tuple(sorted(set(networks), key=_sort_key)) for networks in networks_by_action.values()))


def find_refusals(module: IpRestrictionModule | None, policies: Mapping[str, Rules | None]) -> tuple[Condition, ...]:
    """Return the condition under which the module ip_restriction refuses a visitor. Return () if the module is not set.

    A visitor passes if any policy has an allow rule that matches and no policy has a deny rule that matches. In
    `policies`, None is a malformed record, which refuses all visitors.
    """
    if module is None:
        return ()
    existing_rules = [policies[id] for id in module.ip_policy_ids if id in policies]
    readable_rules = [rules for rules in existing_rules if rules]
    if len(readable_rules) < len(existing_rules):
        return REFUSE_ALL
    allowed = ClientIn(tuple(network for rules in readable_rules for network in rules.allow))
    denied = ClientIn(tuple(network for rules in readable_rules for network in rules.deny))
    return (AnyOf((Not(allowed), denied)),)


def has_too_many(refusals: Iterable[tuple[Condition, ...]]) -> bool:
    """Return whether the conditions of an edge have more than MAX_NETWORKS networks. Equal conditions count once."""
    return sum(count_networks(condition) for conditions in set(refusals) for condition in conditions) > MAX_NETWORKS


def describe_problems(module: IpRestrictionModule | None, policies: Mapping[str, Rules | None]) -> str:
    """Return sentences about the module's policies that do not exist or are malformed, "" if there are none."""
    ids = module.ip_policy_ids if module else []
    sentences = [_GONE.format(id) for id in ids if id not in policies]
    return " ".join([*sentences, *(_MALFORMED.format(id) for id in ids if policies.get(id, _NO_RULES) is None)])


def find_missing(account: str, ids: Sequence[str]) -> list[str]:
    """Return the ids for which the account has no IP policy. Raises aws.Unavailable."""
    scope = items.scope(account, kinds.IP_POLICIES.path)
    policy_records = table.read_records((scope, id) for id in ids)
    known = [item for record in policy_records.values() if (item := items.decode_live(record)) and item.body]
    return sorted({*ids} - {policy.id for policy in known})


def find_policy(account: str, id: str) -> Item | None:
    """Return a policy of an account, or None. Raises aws.Unavailable."""
    return table.read(items.scope(account, kinds.IP_POLICIES.path), id)


def list_copies(item: Item) -> set[tuple[str, str, str]]:
    """Return the copies of rules in a policy, or the copy that the policy of a rule must have.

    `item` is the policy or rule. An import compares the copies of both. Each copy is a policy id, a rule id and a text
    "<action> <network>". Raises MalformedRecord and ValueError.
    """
    if kinds.IP_POLICIES.has(item.id):
        return {(item.id, rule, text) for rule, text in _copies(item).items()}
    stored = IpPolicyRule.of(item.body)
    return {(stored.ip_policy_id, item.id, _copy(stored))}


def put_copy(policy: Item, rule: Item) -> list[Write]:
    """Return the writes that copy a rule into the record of its policy. The writes fail if the policy has changed.

    Raises TooManyRules.
    """
    stored = IpPolicyRule.of(rule.body)
    copies = {**_copies(policy), rule.id: _copy(stored)}
    if len(copies) > MAX_RULES:
        raise TooManyRules
    return _replace_copies(policy, copies)


def change_rule(change: Change, rule: Item, after: Item) -> Item | None:
    """Replace a rule, and its copy in the record of its policy. Raises the errors of `Change.commit`."""
    changed = change.rewrite(rule, lambda _: after)
    policy = find_policy(rule.account, IpPolicyRule.of(after.body).ip_policy_id)
    if changed.steps[0].writes and policy and rule.id in _copies(policy):
        changed = changed.add(*put_copy(policy, after))
    return changed.commit()


def remove_rule(change: Change, scope: str, id: str) -> bool:
    """Remove a rule, and its copy in the record of its policy. Return False if the rule does not exist.

    Raises the errors of `Change.commit`.
    """

    def attempt() -> bool:
        rule = table.find(scope, id)
        if rule is None:
            return False
        named = rule.body.get("ip_policy_id")
        policy = find_policy(rule.account, named) if named else None
        remaining_copies = {name: copy for name, copy in _copies(policy).items() if name != id}
        change.remove(rule).add(*(_replace_copies(policy, remaining_copies) if policy else [])).commit()
        return True

    return writes.retry(attempt)


def remove_policy(change: Change, scope: str, id: str) -> bool:
    """Remove a policy with its rules. Return False if it does not exist.

    Allow rules are removed first, so that no visitor passes meanwhile. Each removal has a separate audit event.
    The call can be repeated after a crash. Raises InUse, and the errors of `Change.commit`.
    """
    policy = table.find(scope, id)
    if policy is None:
        return False
    if change.check:
        change.check(policy)
    if policy.referrers:
        raise InUse(policy.referrers)
    rules = items.scope(policy.account, kinds.IP_POLICY_RULES.path)
    removed: set[str] = set()

    def attempt() -> bool:
        copies = _copies(table.find(scope, id))
        # the copy of a rule begins with the action, so copies of allow rules come first
        for rule in sorted(copies.keys() - removed, key=lambda rule: copies[rule]):
            remove_rule(Change(change.by), rules, rule)
            removed.add(rule)
        emptied = table.find(scope, id)
        if _copies(emptied).keys() - removed:
            raise writes.Overtaken  # another request has added a rule since the rules were read
        if emptied:
            Change(change.by).remove(emptied).commit()
        return True

    return writes.retry(attempt)


def _copy(rule: IpPolicyRule) -> str:
    return f"{rule.action} {parse_cidr(rule.cidr)}"


def _copies(policy: Item | None) -> Mapping[str, str]:
    copies = policy.unseen.get(_RULES) if policy else None
    return copies if isinstance(copies, dict) else {}


def _replace_copies(policy: Item, copies: Mapping[str, str]) -> list[Write]:
    if copies == _copies(policy):
        return []
    after = replace(policy, unseen={**policy.unseen, _RULES: dict(copies)}, revision=items.choose_revision(policy))
    return writes.rewrite(policy, after)


def _sort_key(network: Network) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen
