"""One worked example for every request and response: what the API answered to the requests in examples.json."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from chalicelib.http.endpoints import Endpoint
from infra.build.openapi.names import Operation

BASE_URL = "https://api.example.com"
_ID = "2TfXCSmBHSvnQdwvT1fBtQ1mFEY"

Body = dict[str, Any]


@cache
def read() -> dict[str, dict[str, Body]]:
    """Return by noun the requests `create`, `update`, `replace`, the `response`, what a creation adds `once`.

    And what operations refuse of their own, `refused`: by verb and error code, in words.
    """
    found: dict[str, dict[str, Body]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def id(prefix: str) -> str:
    """Return the one id of a kind in all examples."""
    return f"{prefix}_{_ID}"


class NoSample(Exception):
    """examples.json lacks what an operation needs; the message says where to write what."""


def request(operation: Operation) -> Body:
    """Return the body of an operation's request. Raises NoSample."""
    return _sample(operation, operation.verb)


def response(operation: Operation) -> Body:
    """Return the body of an operation's response. Raises NoSample."""
    shown = _sample(operation, "response")
    match operation.verb:
        case "list":
            return _page(shown, operation.endpoint)
        case "create":
            return {**shown, **read()[operation.noun].get("once", {})}
        case "update":
            return {**shown, **_sample(operation, "update")}
        case _:
            return shown


def refused(operation: Operation) -> dict[str, str]:
    """Return the sentences for the refusals that only this operation has, by error code."""
    found: dict[str, str] = read().get(operation.noun, {}).get("refused", {}).get(operation.verb, {})
    return found


def _sample(operation: Operation, part: str) -> Body:
    try:
        return read()[operation.noun][part]
    except KeyError:
        endpoint = operation.endpoint
        raise NoSample(
            f'infra/build/openapi/examples.json lacks "{part}" of "{operation.noun}": write there what '
            f"{endpoint.method} {endpoint.path} {'answers' if part == 'response' else 'takes'}."
        ) from None


def _page(entry: Body, endpoint: Endpoint) -> Body:
    items = next(iter(endpoint.response.__annotations__))
    uri = entry["uri"].rpartition("/")[0] if "uri" in entry else BASE_URL + endpoint.path
    return {items: [entry], "uri": uri, "next_page_uri": None}
