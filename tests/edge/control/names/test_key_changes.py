"""Which names a changed unique key can give to another account."""

import pytest

from edge.control.names.key_changes import BASE_NAME, PROVED, KeyChanges

DOMAIN = "t.example.com"


@pytest.mark.parametrize(
    ("scope", "concerned", "others"),
    [
        (f"{BASE_NAME}a.{DOMAIN}", [f"a.{DOMAIN}", f"x.a.{DOMAIN}", f"A.{DOMAIN}"], [f"b.{DOMAIN}", DOMAIN]),
        (f"{PROVED}shop.org", ["shop.org", "a.shop.org", "SHOP.org"], ["org", "xshop.org", f"a.{DOMAIN}"]),
        (f"{PROVED}*.shop.org", ["a.shop.org"], ["xshop.org"]),
        ("acct_a#shop.org", [], ["shop.org", f"a.{DOMAIN}"]),
    ],
)
def test_a_key_concerns_its_name_and_those_below(scope: str, concerned: list[str], others: list[str]) -> None:
    changes = KeyChanges([scope], DOMAIN)
    assert [it for it in (*concerned, *others) if changes.concern(it)] == concerned


def test_each_of_several_keys_counts_and_none_means_no_name() -> None:
    names = [f"a.{DOMAIN}", f"b.{DOMAIN}", "shop.org", "away.org"]
    several = KeyChanges(iter([f"{BASE_NAME}a.{DOMAIN}", f"{BASE_NAME}b.{DOMAIN}", f"{PROVED}shop.org"]), DOMAIN)
    assert [it for it in names if several.concern(it)] == names[:3]
    assert not any(map(KeyChanges([], DOMAIN).concern, names))
