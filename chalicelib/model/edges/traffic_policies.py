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
        raise UnsupportedPolicy(f"inbound: has more than {MAX_RULES} rules.")
    tokens = {place: _tokenize(place, text) for place, text in _list_expressions(rules)}
    count = sum(map(policy_tokens.count_addresses, tokens.values())) + sum(map(_count_networks, rules))
    if count > MAX_ADDRESSES:
        raise UnsupportedPolicy(f"inbound: has more than {MAX_ADDRESSES} addresses and networks.")
    conditions: dict[str, list[Condition]] = {f"inbound[{number}]": [] for number in range(len(rules))}
    for place, found in tokens.items():
        with _at(place):
            conditions[place.partition(".")[0]].append(policy_expressions.parse(found))
    for rule, (place, applies) in zip(rules, conditions.items(), strict=True):
        applies.append(AnyOf(tuple(_parse_actions(place, rule["actions"]))))
    return AnyOf(tuple(AllOf(tuple(it)) for it in conditions.values()))


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
        _require(depth <= MAX_DEPTH, "value", f"is more than {MAX_DEPTH} levels deep.")
    try:
        return json.loads(text, object_pairs_hook=_make_object)
    except ValueError:
        raise UnsupportedPolicy("value: must be a JSON document.") from None


def _make_object(pairs: Sequence[tuple[str, Any]]) -> _Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UnsupportedPolicy(f"value: must not have the key {_name(repeated)} twice in one object.")
    return found


def _check_rule(place: str, rule: Any) -> None:
    _require(isinstance(rule, dict), place, "must be an object.")
    _require_known(place, rule, ("name", "expressions", "actions"))
    _require(isinstance(rule.get("name", ""), str), f"{place}.name", "must be a string.")
    _require(_is_texts(rule.get("expressions", [])), f"{place}.expressions", "must be an array of strings.")
    actions = rule.get("actions")
    _require(
        isinstance(actions, list) and actions != [], f"{place}.actions", "must be an array of at least one action."
    )


def _list_expressions(rules: Sequence[_Object]) -> Iterator[tuple[str, str]]:
    """Yield the expressions of rules, each with its position in the document."""
    for number, rule in enumerate(rules):
        for index, text in enumerate(rule.get("expressions", [])):
            yield f"inbound[{number}].expressions[{index}]", text


def _tokenize(place: str, text: str) -> list[policy_tokens.Token]:
    with _at(place):
        return policy_tokens.tokenize(text)


def _count_networks(rule: _Object) -> int:
    """Return the number of networks in a rule's actions. Malformed networks count too."""
    configs = [action.get("config") for action in rule["actions"] if isinstance(action, dict)]
    every = [it for config in configs if isinstance(config, dict) for it in (config.get("allow"), config.get("deny"))]
    return sum(len(it) for it in every if isinstance(it, list))


def _parse_actions(rule: str, actions: Sequence[Any]) -> Iterator[Condition]:
    """Yield the condition under which each action closes a connection."""
    for number, action in enumerate(actions):
        place = f"{rule}.actions[{number}]"
        _require(isinstance(action, dict), place, "must be an object.")
        _require_known(place, action, ("type", "config"))
        kind = action.get("type")
        _require(isinstance(kind, str), f"{place}.type", "must be a string.")
        parse_config = _ACTIONS.get(kind)
        if parse_config is None:
            raise UnsupportedPolicy(f"{place}: {_name(kind)} is not supported by this version.")
        yield parse_config(f"{place}.config", action.get("config"))


def _parse_deny(place: str, config: Any) -> Condition:
    _require(config is None or config == {}, place, "must be empty, since deny has no settings.")
    return Constant(True)


def _parse_restrict_ips(place: str, config: Any) -> Condition:
    _require(isinstance(config, dict), place, "must be an object with the array allow.")
    _require_known(place, config, ("allow", "deny", "enforce"))
    allow, deny, enforce = config.get("allow"), config.get("deny", []), config.get("enforce", True)
    _require(_is_texts(allow) and allow != [], f"{place}.allow", "must be an array of at least one address or network.")
    _require(_is_texts(deny), f"{place}.deny", "must be an array of addresses and networks.")
    _require(isinstance(enforce, bool), f"{place}.enforce", "must be true or false.")
    admitted, refused = _parse_networks(f"{place}.allow", allow), _parse_networks(f"{place}.deny", deny)
    return Not(AllOf((admitted, Not(refused)))) if enforce else Constant(False)


_ACTIONS: Mapping[str, Callable[[str, Any], Condition]] = {"deny": _parse_deny, "restrict-ips": _parse_restrict_ips}


def _parse_networks(place: str, texts: Sequence[str]) -> ClientIn:
    networks = []
    for number, text in enumerate(texts):
        with _at(f"{place}[{number}]"):
            networks.append(policy_expressions.parse_network(text))
    return ClientIn(tuple(networks))


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Add a position in the document to the messages of errors in this block."""
    try:
        yield
    except UnsupportedPolicy as error:
        raise UnsupportedPolicy(f"{place}: {error}") from None


def _require(is_met: bool, place: str, problem: str) -> None:
    if not is_met:
        raise UnsupportedPolicy(f"{place}: {problem}")


def _require_known(place: str, found: _Object, known: Sequence[str]) -> None:
    for name in found:
        _require(name in known, place, f"{_name(name)} is not supported by this version.")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(it, str) for it in value)


def _name(text: str) -> str:
    """Return a key or a type from a document in the form in which an error shows it."""
    return text if _WORD.fullmatch(text) else quote(text)
