"""Traffic policies of TCP edges: converts a stored document to the condition that closes a connection. Does no I/O."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from chalicelib.model.edges import policy_expressions, policy_tokens
from chalicelib.model.edges.policy_expressions import AllOf, AnyOf, ClientIn, Condition, Constant, Not
from chalicelib.model.edges.policy_tokens import MAX_DEPTH, UnsupportedPolicy, quote

MAX_RULES = 1000  # the most rules of a policy
MAX_ADDRESSES = 2000  # the most addresses and networks in a policy
_Object: TypeAlias = Mapping[str, Any]
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|(?P<opened>[\[{])|(?P<closed>[\]}])', re.DOTALL)
_WORD = re.compile(r"[\w.-]{1,40}", re.ASCII)


def parse(document: str) -> Condition:
    """Return the condition under which the policy closes a connection. Raises UnsupportedPolicy.

    Limits are checked before expressions and networks are parsed.
    """
    rules = _read_rules(document)
    if len(rules) > MAX_RULES:
        raise UnsupportedPolicy(f"inbound: must have at most {MAX_RULES} rules.")
    tokens = {location: _tokenize(location, text) for location, text in _list_expressions(rules)}
    count = sum(map(policy_tokens.count_addresses, tokens.values())) + sum(map(_count_networks, rules))
    if count > MAX_ADDRESSES:
        raise UnsupportedPolicy(f"inbound: must have at most {MAX_ADDRESSES} addresses and networks.")
    conditions: dict[str, list[Condition]] = {f"inbound[{number}]": [] for number in range(len(rules))}
    for location, expression in tokens.items():
        with _locate_errors(location):
            conditions[location.partition(".")[0]].append(policy_expressions.parse(expression))
    for rule, (location, applies) in zip(rules, conditions.items(), strict=True):
        applies.append(AnyOf(tuple(_parse_actions(location, rule["actions"]))))
    return AnyOf(tuple(AllOf(tuple(rule_conditions)) for rule_conditions in conditions.values()))


@lru_cache(256)
def describe_unsupported(document: str) -> str:
    """Return the reason why the edge cannot enforce a policy, "" if it can."""
    try:
        parse(document)
    except UnsupportedPolicy as error:
        return str(error)
    return ""


def _read_rules(document: str) -> list[Any]:
    """Return the rules of a policy's document. Each rule has expressions and actions."""
    policy = _read_json(document)
    _require(isinstance(policy, dict), "value", "must be a JSON object.")
    _require_known("value", policy, ("inbound", "outbound"))
    _require(
        policy.get("outbound", []) == [], "outbound", "rules of outbound traffic are not supported by this version."
    )
    rules = policy.get("inbound", [])
    _require(isinstance(rules, list), "inbound", "must be an array.")
    for number, rule in enumerate(rules):
        _check_rule(f"inbound[{number}]", rule)
    return list(rules)


def _read_json(text: str) -> Any:
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += (bracket.lastgroup == "opened") - (bracket.lastgroup == "closed")
        _require(depth <= MAX_DEPTH, "value", f"must be at most {MAX_DEPTH} levels deep.")
    try:
        return json.loads(text, object_pairs_hook=_make_object)
    except ValueError:
        raise UnsupportedPolicy("value: must be a JSON document.") from None


def _make_object(pairs: Sequence[tuple[str, Any]]) -> _Object:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UnsupportedPolicy(f"value: must not have the key {_name(repeated)} twice in one object.")
    return members


def _check_rule(location: str, rule: Any) -> None:
    _require(isinstance(rule, dict), location, "must be an object.")
    _require_known(location, rule, ("name", "expressions", "actions"))
    _require(isinstance(rule.get("name", ""), str), f"{location}.name", "must be a string.")
    _require(_is_texts(rule.get("expressions", [])), f"{location}.expressions", "must be an array of strings.")
    actions = rule.get("actions")
    _require(
        isinstance(actions, list) and actions != [], f"{location}.actions", "must be an array of at least one action."
    )


def _list_expressions(rules: Sequence[_Object]) -> Iterator[tuple[str, str]]:
    """Yield the expressions of rules, each with its position in the document."""
    for number, rule in enumerate(rules):
        for index, text in enumerate(rule.get("expressions", [])):
            yield f"inbound[{number}].expressions[{index}]", text


def _tokenize(location: str, text: str) -> list[policy_tokens.Token]:
    with _locate_errors(location):
        return policy_tokens.tokenize(text)


def _count_networks(rule: _Object) -> int:
    """Return the number of networks in a rule's actions. Malformed networks count too."""
    configs = [action.get("config") for action in rule["actions"] if isinstance(action, dict)]
    objects = [config for config in configs if isinstance(config, dict)]
    network_lists = [config.get(name) for config in objects for name in ("allow", "deny")]
    return sum(len(networks) for networks in network_lists if isinstance(networks, list))


def _parse_actions(rule: str, actions: Sequence[Any]) -> Iterator[Condition]:
    """Yield the condition under which each action closes a connection."""
    for number, action in enumerate(actions):
        location = f"{rule}.actions[{number}]"
        _require(isinstance(action, dict), location, "must be an object.")
        _require_known(location, action, ("type", "config"))
        kind = action.get("type")
        _require(isinstance(kind, str), f"{location}.type", "must be a string.")
        parse_config = _ACTIONS.get(kind)
        if parse_config is None:
            raise UnsupportedPolicy(f"{location}: {_name(kind)} is not supported by this version.")
        yield parse_config(f"{location}.config", action.get("config"))


def _parse_deny(location: str, config: Any) -> Condition:
    _require(config is None or config == {}, location, "must be empty, since deny has no settings.")
    return Constant(True)


def _parse_restrict_ips(location: str, config: Any) -> Condition:
    _require(isinstance(config, dict), location, "must be an object with the array allow.")
    _require_known(location, config, ("allow", "deny", "enforce"))
    allow, deny, enforce = config.get("allow"), config.get("deny", []), config.get("enforce", True)
    _require(
        _is_texts(allow) and allow != [], f"{location}.allow", "must be an array of at least one address or network."
    )
    _require(_is_texts(deny), f"{location}.deny", "must be an array of addresses and networks.")
    _require(isinstance(enforce, bool), f"{location}.enforce", "must be true or false.")
    admitted, refused = _parse_networks(f"{location}.allow", allow), _parse_networks(f"{location}.deny", deny)
    return Not(AllOf((admitted, Not(refused)))) if enforce else Constant(False)


_ACTIONS: Mapping[str, Callable[[str, Any], Condition]] = {"deny": _parse_deny, "restrict-ips": _parse_restrict_ips}


def _parse_networks(location: str, texts: Sequence[str]) -> ClientIn:
    networks = []
    for number, text in enumerate(texts):
        with _locate_errors(f"{location}[{number}]"):
            networks.append(policy_expressions.parse_network(text))
    return ClientIn(tuple(networks))


@contextmanager
def _locate_errors(location: str) -> Iterator[None]:
    """Add a position in the document to the messages of errors in this block."""
    try:
        yield
    except UnsupportedPolicy as error:
        raise UnsupportedPolicy(f"{location}: {error}") from None


def _require(is_met: bool, location: str, problem: str) -> None:
    if not is_met:
        raise UnsupportedPolicy(f"{location}: {problem}")


def _require_known(location: str, members: _Object, known: Sequence[str]) -> None:
    for name in members:
        _require(name in known, location, f"{_name(name)} is not supported by this version.")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _name(text: str) -> str:
    """Return a key or a type from a document in the form in which an error shows it."""
    return text if _WORD.fullmatch(text) else quote(text)
