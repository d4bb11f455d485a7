"""Tokens with any header and any claims pass only if a plain restatement of the rules accepts them."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.federation import tokens
from chalicelib.federation.tokens import Rejected
from tests.federation import signing
from tests.federation.random_tokens import GOOD, HEADERS, KEYS, KIDS, MEMBERS, SIGNERS, TRUST, is_acceptable
from tests.federation.signing import HEADER, NOW


def accepts(text: str) -> bool:
    try:
        return bool(tokens.verify(text, KEYS, TRUST, NOW))
    except Rejected:
        return False


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    odd=HEADERS,
    changed=st.fixed_dictionaries({}, optional=MEMBERS),
    removed=st.sets(st.sampled_from(sorted(GOOD)), max_size=1),
    repeated=st.sampled_from([None, None, None, *sorted(GOOD)]),
    signer=st.sampled_from(sorted(SIGNERS)),
)
def test_only_acceptable_tokens_pass(
    odd: dict[str, Any], changed: dict[str, Any], removed: set[str], repeated: str | None, signer: str
) -> None:
    header = {**HEADER, "alg": signer, "kid": KIDS[signer], **odd}
    payload = {name: value for name, value in {**GOOD, **changed}.items() if name not in removed}
    is_repeated = repeated in payload
    text = json.dumps(payload)
    if is_repeated:
        text = f"{text[:-1]}, {json.dumps(repeated)}: {json.dumps(payload[str(repeated)])}}}"
    has_odd_numbers = any(word in text + json.dumps(header) for word in ("NaN", "Infinity"))
    accepted = accepts(signing.token(header, text, SIGNERS[signer]))
    assert accepted == (not has_odd_numbers and is_acceptable(header, payload, signer, is_repeated))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="aA9-_.= \n+/é", max_size=40) | st.text(max_size=40))
def test_any_other_text_is_rejected(text: str) -> None:
    assert not accepts(text)
