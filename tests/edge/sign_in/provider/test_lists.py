"""Which users of GitHub the lists of a route admit."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.sign_in.provider import provider_table, reading
from edge.sign_in.provider.facts import Permission, admit
from edge.sign_in.provider.reading import ProviderAnswer
from tests.edge.sign_in.fake_providers import FakeProviders, Person

MEMBER = Person(
    email="ada@home.example",
    more={"ada@work.example": True, "ada@sold.example": False},
    teams=[("Acme", "ops"), ("other", "dev"), ("waiting", "dev")],
    organizations={"acme": "active", "Other": "active", "waiting": "pending"},
)
OTHER_LISTS = {
    "email_addresses": ("a@b.c",),
    "email_domains": ("x.example",),
    "teams": ("a/b",),
    "organizations": ("b", "waiting"),
}


@pytest.mark.parametrize(
    ("lists", "address"),
    [
        ({}, "ada@home.example"),
        ({"organizations": ("ACME",)}, "ada@home.example"),
        ({"organizations": ("acm",)}, ""),
        ({"organizations": ("acme-inc",)}, ""),
        ({"organizations": ("waiting",)}, ""),  # an invitation that is not accepted
        ({"teams": ("acme/ops",)}, "ada@home.example"),  # GitHub can spell the organization in two ways
        ({"teams": ("ACME/OPS",)}, "ada@home.example"),
        ({"teams": ("acme/dev",)}, ""),  # a team of the same name in another organization
        ({"teams": ("acme/dev", "other/ops")}, ""),
        ({"teams": ("waiting/dev",)}, ""),
        ({"teams": ("acme/op", "acme/ops2")}, ""),
        ({"email_domains": ("work.example",)}, "ada@work.example"),
        ({"email_addresses": ("ADA@Work.Example",)}, "ada@work.example"),
        ({"email_domains": ("sold.example",)}, ""),
        ({"email_addresses": ("ada@sold.example",)}, ""),
        ({**OTHER_LISTS, "organizations": ("b", "acme")}, "ada@home.example"),
        ({**OTHER_LISTS, "teams": ("a/b", "other/dev")}, "ada@home.example"),
        ({**OTHER_LISTS, "email_addresses": ("ada@home.example",)}, "ada@home.example"),
        ({**OTHER_LISTS, "email_domains": ("x.example", "work.example")}, "ada@work.example"),
        (OTHER_LISTS, ""),
    ],
    ids=str,
)
def test_one_entry_of_one_list_admits(lists: dict[str, Any], address: str) -> None:
    fake, rule = FakeProviders(1, people={"github": MEMBER}), SignInRule("github", "digest", **lists)

    async def ask(url: str, parameters: Mapping[str, str] = {}) -> Any:
        _, document = fake.api("github", urlsplit(url).path.removeprefix("/github"), {}, "Bearer access-github")
        return document

    provider = provider_table.with_endpoints(fake.endpoints())["github"]
    facts = asyncio.run(reading.read_facts(ProviderAnswer(provider, "access-github", None, "secret"), rule, ask))
    assert admit(facts, rule) == (Permission(address) if address else None)


def test_at_most_a_hundred_pages_of_a_list_are_read() -> None:
    requests: Counter[str] = Counter()

    async def ask(url: str, parameters: Mapping[str, str] = {}) -> Any:
        requests[urlsplit(url).path] += 1
        return {"id": 1} if url.endswith("/user") else [{"organization": {"login": "acme"}}] * 100

    answer = ProviderAnswer(provider_table.PROVIDERS["github"], "access", None, "secret")
    facts = asyncio.run(reading.read_facts(answer, SignInRule("github", "digest", teams=("acme/ops",)), ask))
    assert (facts.teams, requests["/user/memberships/orgs"], requests["/user/teams"]) == ((), 100, 100)
