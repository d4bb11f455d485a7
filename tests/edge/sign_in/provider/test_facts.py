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


LOOK_ALIKES = (
    "ada+evil@example.com",
    "a.da@example.com",
    "ada@sub.example.com",
    "ada@notexample.com",
    "ada@example.com.evil.example",
    "ada@example.com.",
    "ada@example.co",
    "ada@xn--xample-2of.com",
    '"ada@example.com"@evil.example',
    "ada@evil.example@example.com",
    "ada@example.com ada@evil.example",
    "ada@example.com\n",
    "ada@example.com\0",
    "<ada@example.com>",
    "\u0430da@example.com",  # a Cyrillic letter
    "ada@\u0435xample.com",
    "ada@example\u3002com",  # a full stop for IDNA
    "ada\uff20example.com",  # an at sign of full width
    "\u200bada@example.com",
    "ada@example.com\u00ad",
    "ada@ex\u017fample.com",
)


@pytest.mark.parametrize("address", LOOK_ALIKES)
def test_an_address_that_looks_alike_is_another_one(address: str) -> None:
    facts = Facts("1", (address,))
    assert admit(facts, SignInRule("google", "digest", email_addresses=("ada@example.com",))) is None
    is_of_domain = address in ("ada+evil@example.com", "a.da@example.com")
    permission = Permission(address) if is_of_domain else None
    assert admit(facts, SignInRule("google", "digest", email_domains=("example.com",))) == permission
