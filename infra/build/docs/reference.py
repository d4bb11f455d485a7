"""Arranges the operations of the OpenAPI document for the reference page.

The page has parts such as SSH. Each part has groups, and each group has the operations of one kind of resource or one
module.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from chalicelib.documents import openapi
from infra.build.docs.fields import Words, target

# The parts of the page, in their order. A part has the operations on paths that begin with one of its segments.
# All other operations are in the last part, _REST.
_PARTS = {
    "Access": ("api_keys", "me", "users", "bot_users", "federated_credentials", "audit_events"),
    "SSH": ("ssh_credentials", "ssh_user_certificates", "ssh_host_certificates", "ssh_certificate_authorities"),
    "Backends": ("backends",),
    "TLS": ("tls_certificates", "certificate_authorities"),
    "Tunnels and addresses": ("tunnels", "reserved_domains", "reserved_addrs"),
    "Edges": ("edges", "ip_policies", "ip_policy_rules"),
}
_REST = "About the API"
# Synonyms for the search of the page, by operation or section.
ALSO = {
    "create_api_key": "rotate key token",
    "create_ssh_revocation": "revoke certificate",
    "create_tls_certificate": "upload certificate rotate",
    "exchange_token": "login log in sign in oidc",
    "get_me": "whoami",
    "limits": "rate limit throttle quota",
    "list_audit_events": "who changed history log",
    "offboard_user": "leaving colleague",
}
_PART = {segment: part for part, segments in _PARTS.items() for segment in segments}


@dataclass
class Group:
    """The operations of one kind of resource, or of one module.

    `shared` has the names of the response schemas that several operations use.
    """

    name: str
    is_module: bool
    operations: list[Words] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"tag/{self.name.replace(' ', '-')}"

    @property
    def segment(self) -> str:
        return str(self.operations[0]["path"].split("/")[1])


def parts(document: Words) -> dict[str, list[Group]]:
    """Return the groups of operations in each part of the page, by the title of the part.

    The page shows each schema once: with its operation, or with a group if several operations use it.
    """
    by_name: dict[str, Group] = {}
    for words in _operations(document):
        by_name.setdefault(words["group"], Group(words["group"], words["is_module"])).operations.append(words)
    for group in by_name.values():
        for words in group.operations:
            words["title"] = _short_title(words["summary"], group.name)
    tags = [tag["name"] for tag in document["tags"]]
    segments = [*_PART, *(group.segment for group in by_name.values())]
    groups = sorted(
        by_name.values(), key=lambda group: (segments.index(group.segment), tags.index(group.operations[0]["tags"][0]))
    )
    _assign_schemas(document["components"]["schemas"], groups)
    return {part: [group for group in groups if _PART.get(group.segment, _REST) == part] for part in (*_PARTS, _REST)}


def parameters(described: Iterable[Words]) -> Words:
    """Convert parameters of an operation to an object schema, because the page shows fields of schemas."""
    fields = [(each["name"], {**each["schema"], "description": each["description"]}) for each in described]
    return {"fields": fields, "required": [each["name"] for each in described if each.get("required")]}


def _operations(document: Words) -> Iterator[Words]:
    """Yield each operation of the document with its scope, its error codes and its group."""
    for short in openapi.operations():
        methods = document["paths"][short["path"]]
        words = {**methods[short["method"].lower()], **short}
        inline_parameters = [each for each in words["parameters"] if "$ref" not in each]
        shared_parameters = [
            document["components"]["parameters"][target(each)] for each in words["parameters"] if "$ref" in each
        ]
        ids = {each["name"]: each["example"] for each in inline_parameters if each["in"] == "path"}
        content = words.get("requestBody", {}).get("content", {}).get("application/json", {})
        answers = {status: _names(answer) for status, answer in words["responses"].items() if status < "400"}
        yield {
            **words,
            "group": words["summary"].partition(" ")[2] if "put" in methods else words["tags"][0],
            "is_module": "put" in methods,
            "is_open": words.get("security") == [],
            "own": parameters(inline_parameters),
            "headers": [each["name"] for each in shared_parameters],
            "is_paged": any(each["name"] == "limit" for each in inline_parameters),
            "ids": ids,
            "address": short["path"].format_map(ids),
            "body": target(content["schema"]) if content else "",
            "example": _example(content),
            "responses_shown": dict(_responses(words["responses"])),
            "also": ALSO.get(methods[short["method"].lower()]["operationId"], ""),
            "answers": answers,
            "answered": [name for names in answers.values() for name in names],
        }


def _short_title(summary: str, group: str) -> str:
    """Return the summary of an operation without the name of its group: "Get usage" for "Get API key usage"."""
    named = {_stem(word) for word in group.split()}
    first, *rest = summary.split()
    return " ".join([first, *(word for word in rest if _stem(word) not in named)])


def _stem(word: str) -> str:
    """Return a word without its plural ending."""
    text = word.lower()
    for ending, singular in (("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("s", "")):
        if text.endswith(ending):
            return text.removesuffix(ending) + singular
    return text


def _example(content: Words) -> str:
    """Return the example of a body as JSON. Return "" if the body has no example."""
    return json.dumps(content["example"], indent=2, ensure_ascii=False) if "example" in content else ""


def _responses(responses: Words) -> Iterator[tuple[str, str]]:
    """Yield the status and the example of each successful response that has an example."""
    for status, answer in responses.items():
        example = _example(answer.get("content", {}).get("application/json", {}))
        if status < "400" and example:
            yield status, example


def _names(answer: Words) -> list[str]:
    """Return the names of a response's schemas, or its media types if it has no schema."""
    content = answer.get("content", {})
    return [target(of["schema"]) if "$ref" in of["schema"] else media for media, of in content.items()]


def _assign_schemas(schemas: Words, groups: list[Group]) -> None:
    """Assign each schema to the operation or group with which the page shows it.

    If a schema is the body of a request or response, it is shown there, even if another schema refers to it.
    """
    operations = [words for group in groups for words in group.operations]
    direct = Counter(name for words in operations for name in (words["body"], *words["answered"]))
    done: set[str] = set()

    def take(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name in schemas and name not in done:
                done.add(name)
                yield name
                yield from take(inner for inner in _list_schema_names(schemas[name]) if inner not in direct)

    for group in groups:
        group.shared = [*take(name for words in group.operations for name in words["answered"] if direct[name] > 1)]
        for words in group.operations:
            words["body_schemas"] = [*take([words["body"]])]
            words["answer_schemas"] = [*take(words["answered"])]


def _list_schema_names(words: object) -> Iterator[str]:
    """Yield the names of the schemas that a schema refers to."""
    if isinstance(words, dict):
        yield from [target(words)] if "$ref" in words else []
        yield from (name for each in words.values() for name in _list_schema_names(each))
    if isinstance(words, list):
        yield from (name for each in words for name in _list_schema_names(each))
