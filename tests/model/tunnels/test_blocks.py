"""Networks that the operator can block."""

import pytest

from chalicelib.model.tunnels import blocks


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("192.0.2.9", "192.0.2.9/32"),
        ("192.0.2.9/24", "192.0.2.0/24"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("2001:DB8::1", "2001:db8::1/128"),
        ("2001::/19", "2001::/19"),
    ],
)
def test_a_network_has_one_form(text: str, network: str) -> None:
    assert blocks.normalize(text) == network


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a network"),
        ("host", "is not a network"),
        ("192.0.2.0/33", "is not a network"),
        ("10.0.0.0/7", "is too large: a blocked network can be a /8 or smaller"),
        ("2001::/18", "is too large: a blocked network can be a /19 or smaller"),
    ],
)
def test_what_is_no_network_or_too_large_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        blocks.normalize(text)
