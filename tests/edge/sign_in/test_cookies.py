"""Cookies of the sign-in service: what is read from a header, and what is set."""

import pytest

from edge.sign_in import cookies


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("", ""),
        ("id=1", "1"),
        ("a=b; id=1", "1"),
        ("a=b,id=1", "1"),
        ("id=1; id=2", ""),  # a neighbour can add one, and nobody knows which counts
        ("ID=1", ""),
        ("xid=1; id", ""),
        ("id=a=b", "a=b"),
    ],
)
def test_a_cookie_is_read_if_it_occurs_once(header: str, value: str) -> None:
    assert cookies.read(header, "id") == value


def test_cookies_are_for_this_host_and_no_script() -> None:
    assert cookies.build("id", "1") == "id=1; Path=/; Secure; HttpOnly; SameSite=Lax"
    assert cookies.build("id", "1", lifetime=600) == "id=1; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"
    assert cookies.build_removal("id") == "id=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0"
