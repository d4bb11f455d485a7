"""The header of a request with a password (RFC 7617)."""

import base64

import pytest

from edge.sign_in.passwords import basic_credentials


def encode(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "credentials"),
    [
        ("Aladdin:open sesame", ("Aladdin", "open sesame")),
        ("test:123£", ("test", "123£")),
        ("a:b:c", ("a", "b:c")),
        (":", ("", "")),
        ("a:", ("a", "")),
        (":b", ("", "b")),
    ],
)
def test_credentials_are_parsed(text: str, credentials: tuple[str, str]) -> None:
    for scheme in ("Basic", "basic", "BASIC"):
        assert basic_credentials.parse(f"{scheme} {encode(text)}") == credentials


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        f"Basic{encode('a:b')}",
        f" Basic {encode('a:b')}",
        f"Bearer {encode('a:b')}",
        f"Basic {encode('ab')}",
        f"Basic {encode('a:bc').rstrip('=')}",
        f"Basic {encode('a:bc?>')}, Basic {encode('a:b')}",
        f"Basic {encode(b'a:' + bytes([0xE9]))}",
        f"Basic {base64.urlsafe_b64encode('a:??>>ÿÿ'.encode()).decode()}",
        f"Basic {encode('a:' + 'b' * 2000)}",
    ],
)
def test_another_form_is_no_password(header: str) -> None:
    assert basic_credentials.parse(header) is None
