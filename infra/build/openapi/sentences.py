"""The description of each operation in the document: its effect, and the refusals that not all operations have."""

import inspect
from collections.abc import Iterator

from chalicelib.http import errors
from chalicelib.http.errors import ApiError
from infra.build.openapi import examples, refusals
from infra.build.openapi.names import Operation, plural, spelt

_IS_REFUSED = {  # by every operation that may answer it, where nothing of its own is said in examples.json
    errors.InvalidRequest: "a parameter that is unknown, repeated or out of its bounds",
    errors.UnknownReference: "an id in the body that this account does not have",
    errors.NotFound: "an id that this account does not have",
    errors.Conflict: "an `Idempotency-Key` that was used for another request",
    errors.PreconditionFailed: "an `If-Match` that does not name the current state",
}
_OF_A_BODY = "an unknown field or one that breaks its rule, each named in `details`"


def about(operation: Operation) -> str:
    """Return the description of an operation."""
    refused = "; ".join(_refused(operation))
    return f"{_does(operation)}\n\nRefused: {refused}." if refused else _does(operation)


def _does(operation: Operation) -> str:
    response, of_one = operation.endpoint.response, _subject(operation)
    match operation.verb:
        case "list":
            return f"Lists {_all(operation)}, newest first, in pages: `next_page_uri` is the URL of the next page."
        case "create":
            return f"Creates {of_one}. {_doc(response)}"
        case "update":
            return (
                f"Changes {of_one}. The body has only the fields that change; absent fields keep their values. "
                "An empty string clears a text, an empty array clears a list."
            )
        case "replace":
            return f"Sets {of_one} as a whole: absent fields get their defaults. {_doc(response)}"
        case "verify":
            return f"Requests a check of the proof of {of_one} at once. Its `verification` then shows the result."
        case "delete" if operation.own:
            return f"Removes {of_one}. The response has no body."
        case "delete":
            beneath = " with everything below its path" if operation.path.startswith("/edges/") else ""
            return f"Deletes {of_one}{beneath}. The response has no body."
        case _:
            return f"Returns {of_one}. {_doc(response or operation.endpoint.view)}"


def _refused(operation: Operation) -> Iterator[str]:
    own = examples.refused(operation)
    for kind in refusals.of(operation.endpoint):
        if told := own.get(kind.code) or _told(kind, operation):
            yield f"{told} ({kind.status} `{kind.code}`)"


def _told(kind: type[ApiError], operation: Operation) -> str:
    """Return the cause of an error in words, "" where it is the same for every operation."""
    if kind is errors.InvalidRequest and operation.body:
        return _OF_A_BODY
    if kind is errors.InvalidRequest and not operation.endpoint.query:
        return ""
    return _IS_REFUSED.get(kind, "")


def _subject(operation: Operation) -> str:
    """Return the object of an operation's sentence: for example an SSH credential."""
    if operation.kind is None:
        return "the authenticated caller" if operation.endpoint.authorizer else f"the {spelt(operation.noun)}"
    if operation.own == "self":
        return f"the {operation.kind.name} of the request itself"
    one = _one(operation.kind.name)
    return f"the {spelt(operation.own)} of {one}" if operation.own else one


def _all(operation: Operation) -> str:
    parent = operation.kind and operation.kind.parent
    return f"the {plural(spelt(operation.noun))} of {_one(parent.name) if parent else 'the account'}"


def _one(name: str) -> str:
    """Return a name with its article: an API key, a tunnel."""
    return f"{'an' if name.startswith(('A', 'E', 'H', 'S', 'a', 'e', 'i', 'o')) else 'a'} {name}"


def _doc(of: object) -> str:
    return inspect.cleandoc(getattr(of, "__doc__", None) or "")
