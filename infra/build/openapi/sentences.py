"""Descriptions of operations: the effect, and errors that not all operations have."""

import inspect
from collections.abc import Iterator

from chalicelib.http import errors
from chalicelib.http.errors import ApiError
from infra.build.openapi import examples, refusals
from infra.build.openapi.names import Operation, plural, spell

_CAUSES = {  # causes of errors for operations without a specific cause in examples.json
    errors.InvalidRequest: "a parameter that is unknown, repeated or out of its bounds",
    errors.UnknownReference: "an id in the body that does not exist in this account",
    errors.NotFound: "an id that does not exist in this account",
    errors.Conflict: "an `Idempotency-Key` that another request has used",
    errors.PreconditionFailed: "an `If-Match` that is not the present ETag",
}
_OF_A_BODY = "an unknown field or one that breaks its rule, each named in `details`"


def describe(operation: Operation) -> str:
    """Return the description of an operation."""
    refused = "; ".join(_list_refusals(operation))
    return f"{_describe_action(operation)}\n\nRefused: {refused}." if refused else _describe_action(operation)


def _describe_action(operation: Operation) -> str:
    response, subject = operation.endpoint.response, _name_subject(operation)
    match operation.verb:
        case "list":
            return (
                f"Lists {_name_all(operation)}, newest first, in pages: `next_page_uri` is the address of the next one."
            )
        case "create":
            return f"Creates {subject}. {_read_docstring(response)}"
        case "update":
            return (
                f"Changes {subject}: the body contains only the changed fields, absent fields stay unchanged. An empty "
                "string clears a text, an empty array a list."
            )
        case "replace":
            return f"Replaces {subject} completely: absent fields get their defaults. {_read_docstring(response)}"
        case "exchange":
            return _read_docstring(operation.endpoint.view)
        case "verify":
            return f"Checks the proof of {subject} immediately; its status shows the result."
        case "offboard":
            return (
                f"Ends {subject} and all that its keys made: API keys, SSH credentials and SSH user certificates. "
                "Works for at most 8 seconds: repeat it after `retry_after` seconds until `complete` is true."
            )
        case "delete" if operation.part:
            return f"Removes {subject}. The response has no body."
        case "delete":
            beneath = " and all resources below its path" if operation.path.startswith("/edges/") else ""
            return f"Deletes {subject}{beneath}. The response has no body."
        case _:
            return f"Returns {subject}. {_read_docstring(response or operation.endpoint.view)}"


def _list_refusals(operation: Operation) -> Iterator[str]:
    causes = examples.list_causes(operation)
    for kind in refusals.of(operation.endpoint):
        if cause := causes.get(kind.code) or _cause(kind, operation):
            yield f"{cause} ({kind.status} `{kind.code}`)"


def _cause(kind: type[ApiError], operation: Operation) -> str:
    """Return the cause of an error. Return "" if the error has the same cause in every operation."""
    if kind is errors.InvalidRequest and operation.body:
        return _OF_A_BODY
    if kind is errors.InvalidRequest and not operation.endpoint.query:
        return ""
    return _CAUSES.get(kind, "")


def _name_subject(operation: Operation) -> str:
    """Return what an operation concerns, for its description: an SSH credential, the policy of an SSH authority."""
    if operation.kind is None:
        return "the caller" if operation.endpoint.authorizer else f"the {spell(operation.noun)}"
    if operation.part == "self":
        return f"the {operation.kind.name} of the request itself"
    resource = _add_article(operation.kind.name)
    return f"the {spell(operation.part)} of {resource}" if operation.part else resource


def _name_all(operation: Operation) -> str:
    parent = operation.kind and operation.kind.parent
    return f"the {plural(spell(operation.noun))} of {_add_article(parent.name) if parent else 'the account'}"


def _add_article(name: str) -> str:
    """Return a name with its article: an API key, a tunnel."""
    return f"{'an' if name.startswith(('A', 'E', 'H', 'S', 'a', 'e', 'i', 'o')) else 'a'} {name}"


def _read_docstring(of: object) -> str:
    return inspect.cleandoc(getattr(of, "__doc__", None) or "")
