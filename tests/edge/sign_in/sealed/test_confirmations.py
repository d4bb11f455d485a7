"""The cookie of sites for which a visitor has confirmed_sites the managed application."""

from edge.sign_in.sealed import confirmations, state
from edge.sign_in.sealed.confirmations import VALIDITY, Confirmations
from edge.sign_in.sealed.state import State

KEYS = {"one": b"1" * 32}


def value(confirmed_sites: Confirmations) -> str:
    return confirmations.build_cookie(confirmed_sites, "one", KEYS["one"]).partition("=")[2].partition(";")[0]


def test_a_confirmation_counts_for_thirty_days() -> None:
    confirmed_sites = Confirmations().add("acct_1 a.example.com", 1000)
    assert confirmations.read(value(confirmed_sites), KEYS, 1000 + VALIDITY - 1) == confirmed_sites
    assert confirmations.read(value(confirmed_sites), KEYS, 1000 + VALIDITY) == Confirmations()


def test_the_cookie_stays_small_with_fifty_long_names() -> None:
    confirmed_sites = Confirmations()
    for number in range(60):
        confirmed_sites = confirmed_sites.add(
            f"acct_1 {number}.{'a' * 63}.{'b' * 63}.{'c' * 63}.example.com", 1_900_000_000
        )
    assert len(confirmations.build_cookie(confirmed_sites, "6a2b3c4d", KEYS["one"])) <= 2560


def test_the_newest_fifty_stay() -> None:
    confirmed_sites = Confirmations()
    for number in range(60):
        confirmed_sites = confirmed_sites.add(f"acct_1 {number}.example.com", 1000)
    confirmed_sites = confirmed_sites.add("acct_1 10.example.com", 2000).add("acct_1 another.example.com", 2000)
    stay = [number for number in range(60) if confirmed_sites.has(f"acct_1 {number}.example.com")]
    assert (stay, len(confirmed_sites.sites)) == ([10, *range(12, 60)], 50)


def test_nothing_else_is_a_confirmation() -> None:
    sign_in_state = State("a.example.com", "acct_1", "e", "r", "aud", "login", "nonce", "verifier", "/", 1000)
    for text in ("", "one.AAAA", "two.AAAA", state.seal(sign_in_state, "one", KEYS["one"])):
        assert confirmations.read(text, KEYS, 1000) == Confirmations()


def test_a_token_belongs_to_a_browser_and_a_sign_in() -> None:
    tokens = {confirmations.token_for(*arguments) for arguments in (("a", "x"), ("a", "y"), ("b", "x"))}
    assert len(tokens) == 3
