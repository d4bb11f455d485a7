"""The encrypted state of a sign-in."""

from dataclasses import replace

import pytest

from edge.sign_in.sealed import confirmations, state
from edge.sign_in.sealed.confirmations import Confirmations
from edge.sign_in.sealed.state import State

KEYS = {"one": b"1" * 32, "two": b"2" * 32}
STATE = State("app.example.com", "acct_1", "edghts_1", "edghtsrt_1", "aud", "login", "nonce", "verifier", "/a", 1000)


@pytest.mark.parametrize(
    ("now", "counts"), [(998, False), (999, True), (1000, True), (1600, True), (1600.5, False), (99999, False)]
)
def test_a_state_counts_for_ten_minutes(now: float, counts: bool) -> None:
    assert state.unseal(state.seal(STATE, "one", KEYS["one"]), KEYS, now) == (STATE if counts else None)


def test_nothing_else_is_a_state() -> None:
    sealed = state.seal(STATE, "one", KEYS["one"])
    cookie = confirmations.build_cookie(Confirmations({"acct_1 app.example.com": 5000}), "one", KEYS["one"])
    other_texts = [
        "",
        "one.",
        "one",
        sealed.replace("one.", "two."),
        sealed.replace("one.", "three."),
        sealed[:-4] + ("AAAA" if sealed[-4:] != "AAAA" else "BBBB"),
        sealed[:20],
        "one.ä",
        cookie.partition("=")[2].partition(";")[0],
    ]
    assert [state.unseal(text, KEYS, 1000) for text in other_texts] == [None] * len(other_texts)


def test_the_challenge_is_that_of_rfc_7636() -> None:
    sealed_state = replace(STATE, verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert sealed_state.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
