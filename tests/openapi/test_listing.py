"""The short list of operations and fields: a change of the API is a change of the list."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from infra.build.openapi import listing
from tests import tolerance

Document = dict[str, Any]


def test_the_committed_list_is_that_of_the_code() -> None:
    document = dict(tolerance.document())
    text = listing.text(document)
    assert listing.FILE.read_text() == text, "run 'make openapi', and review docs/api.txt"
    operations = sum(len(methods) for methods in document["paths"].values())
    assert len(text.splitlines()) <= operations + len(document["components"]["schemas"]) + 10, "a line for each"


@pytest.mark.parametrize(
    ("change", "removed", "added"),
    [
        (
            lambda api: api["paths"]["/me"].pop("get"),
            ["GET /me If-None-Match -> 200 Me, 304 | 400 401 403 429 500 503"],
            [],
        ),
        (
            lambda api: api["paths"]["/me"]["get"].update(security=[]),
            ["GET /me If-None-Match -> 200 Me, 304 | 400 401 403 429 500 503"],
            ["GET /me If-None-Match (open) -> 200 Me, 304 | 400 401 403 429 500 503"],
        ),
        (
            lambda api: api["paths"]["/me"]["get"]["responses"].pop("401"),
            ["GET /me If-None-Match -> 200 Me, 304 | 400 401 403 429 500 503"],
            ["GET /me If-None-Match -> 200 Me, 304 | 400 403 429 500 503"],
        ),
        (
            lambda api: api["paths"]["/bot_users"]["get"]["parameters"].pop(0),
            ["GET /bot_users ?before_id ?limit -> 200 BotUserList | 400 401 403 429 500 503"],
            ["GET /bot_users ?limit -> 200 BotUserList | 400 401 403 429 500 503"],
        ),
        (
            lambda api: api["components"]["schemas"].pop("Ref"),
            ["Ref: id string, uri string"],
            [],
        ),
        (
            lambda api: api["components"]["schemas"]["Ref"]["properties"].pop("uri"),
            ["Ref: id string, uri string"],
            ["Ref: id string"],
        ),
        (
            lambda api: api["components"]["schemas"]["Ref"]["required"].remove("uri"),
            ["Ref: id string, uri string"],
            ["Ref: id string, uri? string"],
        ),
        (
            lambda api: api["components"]["schemas"]["Ref"]["properties"]["id"].update(maxLength=64),
            ["Ref: id string, uri string"],
            ["Ref: id string(..64), uri string"],
        ),
        (
            lambda api: api["components"]["schemas"]["Ref"]["properties"].update(
                id={"type": ["array", "null"], "items": {"enum": ["a", None]}, "maxItems": 2}
            ),
            ["Ref: id string, uri string"],
            ['Ref: id ["a"|null]|null(..2), uri string'],
        ),
    ],
)
def test_a_change_of_the_api_is_a_changed_line(
    change: Callable[[Document], None], removed: list[str], added: list[str]
) -> None:
    document = copy.deepcopy(dict(tolerance.document()))
    before = listing.text(document).splitlines()
    change(document)
    after = listing.text(document).splitlines()
    assert ([line for line in before if line not in after], [line for line in after if line not in before]) == (
        removed,
        added,
    )
