"""The one form of a domain, and which of them nobody can own."""

import re

import pytest

from chalicelib import domains

LABEL = "a" * 63
LONGEST = ".".join([LABEL] * 3 + ["a" * 61])
ANY = "must be a domain, for example app.example.com or *.example.com"
ASCII = "must be a domain in its ASCII form (xn--…)"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("example.com", "example.com"),
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("*.Example.com.", "*.example.com"),
        ("xn--MNCHEN-3ya.de", "xn--mnchen-3ya.de"),
        ("1.2.3.example", "1.2.3.example"),
        (f"{LABEL}.example", f"{LABEL}.example"),
        (LONGEST, LONGEST),
        (f"{LONGEST}.", LONGEST),
    ],
)
def test_a_domain_has_one_form(text: str, name: str) -> None:
    assert domains.normalize(text) == domains.normalize(name) == name


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("münchen.de", ASCII),
        ("straße.de", ASCII),
        ("example。com", ASCII),
        ("example.com\u200b", ASCII),
        *(
            (text, ANY)
            for text in (
                "",
                ".",
                "com",
                "example..com",
                ".example.com",
                "example.com..",
                "*",
                "*.com",
                "*example.com",
                "a.*.example.com",
                "*.*.example.com",
                "-a.example",
                "a-.example",
                "a_b.example",
                "a b.example",
                "example.com\n",
                "example.com:443",
                "127.0.0.1",
                "[::1]",
                f"{LABEL}a.example",
                f"a.{LONGEST}",
                f"*.{LONGEST}",
            )
        ),
    ],
)
def test_what_is_no_domain_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(rule)}$"):
        domains.normalize(text)


@pytest.mark.parametrize(
    ("name", "is_suffix"),
    [
        ("com", True),
        ("co.uk", True),
        ("*.co.uk", True),
        ("github.io", True),
        ("anything.ck", True),
        ("xn--p1ai", True),
        ("xn--55qx5d.cn", True),
        ("nothing-known", True),
        ("example.com", False),
        ("*.example.com", False),
        ("example.co.uk", False),
        ("a.github.io", False),
        ("www.ck", False),
        ("example.nothing-known", False),
    ],
)
def test_which_names_are_public_suffixes(name: str, is_suffix: bool) -> None:
    assert domains.is_public_suffix(name) == is_suffix


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("shop.example.com", "example.com"),
        ("*.example.com", "example.com"),
        ("a.b.shop.co.uk", "shop.co.uk"),
        ("example.com", "example.com"),
        ("co.uk", "co.uk"),
        ("a.b.unknown-tld", "b.unknown-tld"),
    ],
)
def test_the_domain_that_someone_registered(name: str, domain: str) -> None:
    assert domains.find_registrable(name) == domain
