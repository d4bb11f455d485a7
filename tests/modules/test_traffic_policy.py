"""The traffic policy (SPEC 2.9, 4.8) by its own rules: a JSON document in a string, kept as it was sent."""

import json
from typing import Any

from chalicelib.modules import traffic_policy
from tests.modules.samples import anywhere
from tests.refusals import assert_invalid
from tests.transports import Client

(TRAFFIC_POLICY,) = traffic_policy.MODULES

NOT_JSON = "must be a JSON document: "
NO_POLICY = "must be a policy: "
DENY = {"type": "deny"}


VERBATIM = [
    "{}",
    ' {\n\t"outbound" : [ ] ,\r\n "inbound": [{"actions": [{"type": "log", "config": {"n": 1e3, "x": null}}]}]}\n',
    '{"inbound": [{"name": "\\u00e9", "expressions": [], "actions": [{"type": "a"}, {"type": "b"}]}]}',
    json.dumps({"inbound": [{"name": "é 🦊", "actions": [DENY]}]}, ensure_ascii=False),
]


def test_a_policy_is_kept_verbatim(admin: Client) -> None:
    address = anywhere(TRAFFIC_POLICY)
    for value in VERBATIM:
        assert admin.put(address, {"value": value}).json == {"enabled": True, "value": value}
        assert admin.get(address).json == {"enabled": True, "value": value}


JSON_FAULTS = [
    ("", "The text is not JSON: Expecting value at character 0"),
    ("deny everything", "The text is not JSON: Expecting value at character 0"),
    ('{"inbound": []', "The text is not JSON: Expecting ',' delimiter at character 14"),
    ("[]", "The text must be a JSON object"),
    ("null", "The text must be a JSON object"),
    ('"{}"', "The text must be a JSON object"),
    ('{"inbound": [], "inbound": []}', 'The key "inbound" occurs twice in one object'),
    ('{"inbound": [{"actions": [{"type": "a", "n": NaN}]}]}', "NaN is not a JSON value"),
    ('{"inbound": [{"actions": [{"type": "a", "n": -Infinity}]}]}', "-Infinity is not a JSON value"),
    (
        '{"inbound": [{"actions": [{"type": "\\ud800"}]}]}',
        "The text contains half of a surrogate pair, which is not a character",
    ),
    ("[" * 100_000, "The text has a number with too many digits, or is nested too deeply"),
]


def test_what_is_not_a_json_object_is_refused(admin: Client) -> None:
    for value, reason in JSON_FAULTS:
        answer = admin.put(anywhere(TRAFFIC_POLICY), {"value": value})
        assert_invalid(answer, {"value": NOT_JSON + reason})


POLICY_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"ingress": []}, "ingress is not accepted here; accepted: inbound, outbound"),
    ({"inbound": {}}, "inbound must be an array"),
    ({"outbound": None}, "outbound must be an array"),
    ({"inbound": ["deny"]}, "inbound.0 must be an object"),
    ({"inbound": [{}]}, "inbound.0.actions is required"),
    ({"inbound": [{"actions": []}]}, "inbound.0.actions must not be empty"),
    ({"inbound": [{"actions": DENY}]}, "inbound.0.actions must be an array"),
    ({"inbound": [{"actions": ["deny"]}]}, "inbound.0.actions.0 must be an object"),
    ({"inbound": [{"actions": [DENY, {}]}]}, "inbound.0.actions.1.type is required"),
    ({"inbound": [{"actions": [{"type": ""}]}]}, "inbound.0.actions.0.type must not be empty"),
    ({"inbound": [{"actions": [{"type": 1}]}]}, "inbound.0.actions.0.type must be a string"),
    ({"inbound": [{"name": 1, "actions": [DENY]}]}, "inbound.0.name must be a string"),
    ({"outbound": [{"expressions": "true", "actions": [DENY]}]}, "outbound.0.expressions must be an array"),
    ({"outbound": [{"expressions": [True], "actions": [DENY]}]}, "outbound.0.expressions.0 must be a string"),
    (
        {"inbound": [{"actions": [DENY], "colour": "red"}]},
        "inbound.0.colour is not accepted here; accepted: name, expressions, actions",
    ),
    (
        {"inbound": [{"actions": [DENY]}, {"actions": []}], "outbound": [{}]},
        "inbound.1.actions must not be empty; outbound.0.actions is required",
    ),
]


def test_what_is_not_a_policy_is_refused_with_the_place(admin: Client) -> None:
    address = anywhere(TRAFFIC_POLICY)
    for policy, reason in POLICY_FAULTS:
        assert_invalid(admin.put(address, {"value": json.dumps(policy)}), {"value": NO_POLICY + reason})
    assert admin.get(address).status == 404


def test_the_value_is_a_string(admin: Client) -> None:
    value: Any
    for value in (None, {}, [], 1, True):
        assert_invalid(admin.put(anywhere(TRAFFIC_POLICY), {"value": value}), {"value": "must be a string"})


def test_a_policy_is_bounded(admin: Client) -> None:
    address = anywhere(TRAFFIC_POLICY)
    largest = "{}".ljust(128 * 1024)
    assert admin.put(address, {"value": largest}).json == {"enabled": True, "value": largest}
    assert_invalid(admin.put(address, {"value": largest + " "}), {"value": "must be at most 131072 bytes of UTF-8"})


def test_a_refusal_names_ten_faults_at_most(admin: Client) -> None:
    answer = admin.put(anywhere(TRAFFIC_POLICY), {"value": json.dumps({"inbound": [{}] * 5000})})
    errors = "; ".join(f"inbound.{index}.actions is required" for index in range(10))
    assert_invalid(answer, {"value": NO_POLICY + errors})
