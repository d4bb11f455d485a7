"""Networks of API keys: which texts are one, and which addresses and networks lie within."""

import pytest

from chalicelib.model.accounts import networks


@pytest.mark.parametrize("text", ["192.0.2.0/24", "192.0.2.1/32", "0.0.0.0/0", "2001:db8::/32", "::/0"])
def test_a_network_without_host_bits_is_accepted(text: str) -> None:
    assert networks.check(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2.0",
        "192.0.2.1/24",
        "192.0.2.0/33",
        "192.0.2.0/255.255.255.0",
        "fe80::%eth0/64",
        "a/8",
        "10.0.0.0/-1",
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a CIDR network without host bits, for example 192\.0\.2\.0/24$"):
        networks.check(text)


@pytest.mark.parametrize(
    ("address", "is_within"),
    [
        ("192.0.2.0", True),
        ("192.0.2.255", True),
        ("192.0.3.0", False),
        ("::ffff:192.0.2.9", True),
        ("::ffff:192.0.3.9", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_an_address_lies_within_a_network_or_not(address: str, is_within: bool) -> None:
    assert networks.contain(["192.0.2.0/24", "2001:db8::/32"], address) is is_within
    assert not networks.contain([], address)


@pytest.mark.parametrize(
    ("inner", "outer", "outside"),
    [
        ([], [], None),
        (["10.1.0.0/16"], ["10.0.0.0/8"], None),
        (["10.0.0.0/8"], ["10.1.0.0/16"], "10.0.0.0/8"),
        (["10.1.0.0/16", "11.0.0.0/8", "12.0.0.0/8"], ["10.0.0.0/8"], "11.0.0.0/8"),
        (["::/0"], ["0.0.0.0/0"], "::/0"),
        (["192.0.2.0/24"], ["10.0.0.0/8", "192.0.2.0/24"], None),
        (["192.0.2.0/24"], [], "192.0.2.0/24"),
    ],
)
def test_the_first_network_outside_is_found(inner: list[str], outer: list[str], outside: str | None) -> None:
    assert networks.find_outside(inner, outer) == outside
