"""Examples of every request and response. The API produced the responses in examples.json."""

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
    """Return the examples of examples.json, by noun such as "api_key".

    For each noun, `create`, `update` and `replace` are bodies of requests, and `response` is the body of a response.
    `once` has the fields that only the response to a creation contains. `refused` has the causes of errors, by verb and
    error code. Errors that every operation has are omitted.
    """
    examples: dict[str, dict[str, Body]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return examples


def id(prefix: str) -> str:
    """Return an id with this prefix. In all examples, the text after the prefix is the same."""
    return f"{prefix}_{_ID}"


class NoSample(Exception):
    """examples.json lacks an example. The message says what to add."""


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


def list_causes(operation: Operation) -> dict[str, str]:
    """Return the causes of errors that only this operation has, by error code."""
    sentences: dict[str, str] = read().get(operation.example, {}).get("refused", {}).get(operation.verb, {})
    return sentences


def _sample(operation: Operation, part: str) -> Body:
    try:
        return read()[operation.example][part]
    except KeyError:
        endpoint = operation.endpoint
        raise NoSample(
            f'infra/build/openapi/examples.json lacks "{part}" of "{operation.example}": add the '
            f"{'response' if part == 'response' else 'request'} of {endpoint.method} {endpoint.path}."
        ) from None


def _page(entry: Body, endpoint: Endpoint) -> Body:
    items = next(iter(endpoint.response.__annotations__))
    uri = entry["uri"].rpartition("/")[0] if "uri" in entry else BASE_URL + endpoint.path
    return {items: [entry], "uri": uri, "next_page_uri": None}
