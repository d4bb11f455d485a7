"""Whether the rule of a route admits a user."""

from typing import Any

import pytest

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.sign_in.provider.facts import Facts, Permission, admit

ADA = Facts("1", ("ada@work.example", "Ada@Home.example"), "Ada", ("acme/core",), ("acme",))


@pytest.mark.parametrize(
    ("lists", "permission"),
    [
        ({}, Permission("ada@work.example")),
        ({"email_addresses": ("ADA@home.EXAMPLE",)}, Permission("Ada@Home.example")),
        ({"email_domains": ("home.example",)}, Permission("Ada@Home.example")),
        ({"email_domains": ("example",)}, None),
        ({"email_domains": ("@home.example",)}, None),
        ({"email_domains": ("ome.example",)}, None),
        ({"teams": ("ACME/Core",)}, Permission("ada@work.example")),
        ({"teams": ("other/core",)}, None),
        ({"organizations": ("acme",)}, Permission("ada@work.example")),
        ({"organizations": ("acm",)}, None),
        ({"organizations": ("other",), "email_domains": ("work.example",)}, Permission("ada@work.example")),
    ],
)
def test_one_match_of_one_list_suffices(lists: dict[str, Any], permission: Permission | None) -> None:
    assert admit(ADA, SignInRule("github", "digest", **lists)) == permission


@pytest.mark.parametrize(
    "address",
    [
        "ada@x@home.example",
        "ada@home.example ",
        " ada@home.example",
        "ada@home.example\n",
        "ädä@home.example",
        "@home.example",
        f"{'a' * 250}@home.example",
        "ada@hoſe.example",
        "home.example",
        "",
    ],
)
def test_a_strange_address_does_not_count(address: str) -> None:
    rule = SignInRule("github", "digest", email_domains=("home.example", "hose.example"), email_addresses=(address,))
    assert admit(Facts("1", (address,)), rule) is None
    assert admit(Facts("1", (address,)), SignInRule("github", "digest")) == Permission()
