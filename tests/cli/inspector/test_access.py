"""Who may use the inspector, as a table of requests."""

import pytest

from tunnel_edge.inspector.access import Access, Decision

HOST = ("Host", "127.0.0.1:4040")


def open_link() -> tuple[Access, tuple[str, str]]:
    """Return the access of an inspector whose link was used, and the header with its cookie."""
    access = Access(4040)
    assert access.decide("GET", access.link.removeprefix("http://127.0.0.1:4040"), [HOST]) == "redeemed"
    return access, ("Cookie", access.set_cookie.partition(";")[0])


@pytest.mark.parametrize(
    ("headers", "decision"),
    [
        ([HOST], "allowed"),
        ([HOST, ("Sec-Fetch-Site", "same-origin")], "allowed"),
        ([HOST, ("Sec-Fetch-Site", "none")], "allowed"),
        ([HOST, ("Origin", "http://127.0.0.1:4040")], "allowed"),
        ([HOST, ("Origin", "null"), ("Sec-Fetch-Site", "same-origin")], "allowed"),
        ([HOST, ("Origin", "null")], "denied"),
        ([HOST, ("Origin", "http://127.0.0.1:4041")], "denied"),
        ([HOST, ("Origin", "http://localhost:4040")], "denied"),
        ([HOST, ("Origin", "https://evil.example")], "denied"),
        ([HOST, ("Sec-Fetch-Site", "same-site")], "denied"),
        ([HOST, ("Sec-Fetch-Site", "cross-site")], "denied"),
        ([HOST, ("Sec-Fetch-Site", "")], "denied"),
        ([HOST, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")], "denied"),
        ([("Host", "localhost:4040")], "denied"),
        ([("Host", "127.0.0.1")], "denied"),
        ([("Host", "127.0.0.1:4041")], "denied"),
        ([("Host", "rebound.example:4040")], "denied"),
        ([HOST, ("Host", "evil.example")], "denied"),
        ([], "denied"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_browser_with_the_cookie_is_allowed_from_our_pages_only(
    headers: list[tuple[str, str]], decision: Decision, method: str
) -> None:
    access, cookie = open_link()
    assert access.decide(method, access.folder, [*headers, cookie]) == decision


def test_without_the_right_cookie_nothing_is_allowed() -> None:
    access, (_, pair) = open_link()
    name, _, value = pair.partition("=")
    guesses = ["", f"{name}=", f"{name}={value[:-1]}", f"{name}=x; {pair}", f"{name}é={value}", f"other={value}"]
    for guess in guesses:
        assert access.decide("GET", access.folder, [HOST, ("Cookie", guess)]) == "denied"
    assert access.decide("GET", access.folder, [HOST]) == "denied"
    assert access.decide("GET", access.folder, [HOST, ("Cookie", f"a=1; {pair}; b=2")]) == "allowed"


def test_the_cookie_without_the_secret_folder_is_not_enough() -> None:
    access, cookie = open_link()
    for target in ("/", "/page.js", "/requests/1", access.folder[:-1], "//", f"/x{access.folder}"):
        assert access.decide("GET", target, [HOST, cookie]) == "denied"
    assert access.decide("GET", f"{access.folder}requests/1?view=hex", [HOST, cookie]) == "allowed"


def test_the_link_can_be_used_once_and_is_then_another() -> None:
    access = Access(4040)
    first = access.link.removeprefix("http://127.0.0.1:4040")
    assert access.decide("HEAD", first, [HOST]) == "denied"
    assert access.decide("GET", first, [HOST, ("Sec-Fetch-Site", "cross-site")]) == "denied"
    assert access.decide("GET", f"{first}&once=x", [HOST]) == "denied"
    assert access.decide("GET", first, [HOST]) == "redeemed"
    assert access.decide("GET", first, [HOST]) == "denied"
    assert access.decide("GET", access.link.removeprefix("http://127.0.0.1:4040"), [HOST]) == "redeemed"


def test_a_change_needs_the_token_of_the_page() -> None:
    access, _ = open_link()
    assert access.permits_change({"token": [access.token]})
    for form in ({}, {"token": [""]}, {"token": ["x"]}, {"token": [access.token, access.token]}):
        assert not access.permits_change(form)


def test_the_cookie_is_for_this_port_and_unreadable_by_scripts() -> None:
    access, _ = open_link()
    name, _, attributes = access.set_cookie.partition("=")
    assert name == "te-inspector-4040"
    assert attributes.partition("; ")[2] == "HttpOnly; SameSite=Strict; Path=/"
