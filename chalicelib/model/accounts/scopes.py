"""Scopes of API keys: their forms, what each covers, and what a request requires. No function has I/O.

A scope is `*`, `*:read`, `<collection>:<right>` or `<collection>:<right>@<id>`. A collection is the first segment of a
path and includes all paths below it. `write` includes `create` and `revoke`, but not `read`. The id names a resource of
the collection. In scopes for SSH certificates it names the authority. A key without scopes may do everything.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind

ALL, READ_ALL = "*", "*:read"
MAX_COUNT, MAX_BYTES = 50, 2048  # limit a key's scopes, so that its token record fits into one DynamoDB read unit

READ, WRITE, CREATE, REVOKE = "read", "write", "create", "revoke"
ACCOUNT = "account"  # the collection of paths below /account: the settings of an account
CERTIFICATES = ("ssh_host_certificates", "ssh_user_certificates")
_AUTHORITIES = "ssh_certificate_authorities"
_WITHOUT_CREATE = frozenset((ACCOUNT, "audit_events", "tunnels"))
_WITHOUT_ID = frozenset((ACCOUNT, "api_keys", "audit_events", "bot_users", "federated_credentials", "users"))
_WITHOUT_SCOPE = frozenset(("/me", "/api_keys/self", "/gateways"))  # API paths that every API key may use
_NO_IDS: Mapping[str, str] = {}

# The fields of request bodies that contain ids of other resources. The caller must be allowed to read these resources.
# The three subtracted fields contain ids too, but other rules apply to them.
_REFERENCES = frozenset(name for kind in kinds.TABLE for name in kind.named_by) - {
    *("edge_id", "owner_id", "ssh_certificate_authority_id")
}


def list_scopes() -> tuple[str, ...]:
    """Return all scopes without an id."""
    return (ALL, READ_ALL, *(f"{name}:{right}" for name in _collections() for right in _rights(name)))


def check(text: str) -> str:
    """Return a scope. Raises ValueError if it is malformed."""
    if text in (ALL, READ_ALL):
        return text
    name, at, id = text.partition("@")
    collection, _, right = name.partition(":")
    if collection not in _collections() or right not in _rights(collection):
        forms = "'*', '*:read', <collection>:<right> or <collection>:<right>@<id>"
        raise ValueError(f"must be {forms}, for example edges:read; the rights are read, write, create and revoke")
    if at and right not in _rights_with_id(collection):
        raise ValueError(f"must not end with @<id>: {name} applies to the whole collection")
    if at and not any(kind.has(id) for kind in _named_kinds(collection)):
        prefixes = " or ".join(f"{kind.prefix}_…" for kind in _named_kinds(collection))
        raise ValueError(f"must end with an id of the form {prefixes}")
    return text


def check_size(scopes: list[str]) -> list[str]:
    """Return the scopes of a key. Raises ValueError if they have more than MAX_BYTES together."""
    if len(" ".join(scopes)) > MAX_BYTES:
        raise ValueError(f"must be at most {MAX_BYTES} bytes in total, when joined by spaces")
    return scopes


def is_recent(scope: str) -> bool:
    """Return whether a scope requires the setting RECORD_FORMAT 4, because earlier versions cannot read the scope."""
    return "@" in scope or scope.endswith((f":{CREATE}", f":{REVOKE}"))


def covers(key_scopes: Sequence[str], scope: str) -> bool:
    """Return whether a key with some scopes may do all that a scope allows."""
    return not key_scopes or not {ALL, *_list_covering(scope)}.isdisjoint(key_scopes)


def find_required(method: str, template: str, path: Mapping[str, str] = _NO_IDS) -> str | None:
    """Return the narrowest scope that permits a request. Return None if every key may send it.

    `template` is the path of the endpoint, `path` has the values of its variables. For SSH certificates the scope has
    no id. Once the authority is known, `build_authority_scope` returns the scope with its id.
    """
    if template in _WITHOUT_SCOPE:
        return None
    collection, right = template.split("/")[1], _right(method, template)
    scope = f"{collection}:{right}"
    if not path or collection in CERTIFICATES or right not in _rights_with_id(collection):
        return scope
    id = next(iter(path.values()))
    return f"{scope}@{id}" if any(kind.has(id) for kind in _named_kinds(collection)) else scope


def find_missing(key_scopes: Sequence[str], method: str, template: str, path: Mapping[str, str]) -> str | None:
    """Return the scope that a key lacks for a request. Return None if it may send the request.

    For a list, a scope with an id suffices: the list then contains only the ids in the key's scopes. A scope with an id
    also suffices for SSH certificates: a later check compares this id with the certificate's authority.
    """
    if not _list_general(method, template).isdisjoint(key_scopes):
        return None
    scope = find_required(method, template, path)
    if scope is None or covers(key_scopes, scope):
        return None
    collection, _, right = scope.partition(":")
    is_limited_later = collection in CERTIFICATES or (right == READ and not path)
    return None if is_limited_later and _covers_one(key_scopes, scope) else scope


def build_authority_scope(method: str, kind: Kind, authority: str) -> str:
    """Return the narrowest scope for a request about an SSH certificate of an authority."""
    return f"{_collection_of(kind)}:{_right(method, kind.path if method == 'POST' else kind.item_path)}@{authority}"


def readable_ids(key_scopes: Sequence[str], kind: Kind) -> frozenset[str] | None:
    """Return the ids of a kind of resource that the scopes of a key permit to list. Return None if they permit all ids.

    For lists of SSH certificates, the result has the ids of the permitted authorities.
    """
    scope = f"{_collection_of(kind)}:{READ}"
    if covers(key_scopes, scope):
        return None
    return frozenset(key_scope.partition("@")[2] for key_scope in key_scopes if key_scope.startswith(f"{scope}@"))


def find_unreadable(key_scopes: Sequence[str], values: Mapping[str, Any]) -> dict[str, str]:
    """Return the scopes that a key lacks to read the resources that a body names, by the dotted path of each id.

    Returns no scopes if no scope of the key has an id: such a key may name all resources.
    """
    if not any("@" in scope for scope in key_scopes):
        return {}
    scopes_by_path = {path: f"{_collection_of(kinds.identify(id))}:{READ}@{id}" for path, id in _references(values)}
    return {path: scope for path, scope in scopes_by_path.items() if not covers(key_scopes, scope)}


def _list_covering(scope: str) -> Iterator[str]:
    """Yield all scopes that cover a scope, except `*`."""
    yield scope
    name, at, id = scope.partition("@")
    collection, _, right = name.partition(":")
    if right == READ:
        yield READ_ALL
    rights = [right] if right == READ else [right, WRITE]
    for each in rights if right else ():
        yield f"{collection}:{each}"
        yield f"{collection}:{each}{at}{id}"


@cache
def _list_general(method: str, template: str) -> frozenset[str]:
    """Return the scopes without an id that permit a request. Each of them suffices."""
    scope = find_required(method, template)
    return frozenset((ALL, *_list_covering(scope))) if scope else frozenset()


def _right(method: str, template: str) -> str:
    """Return the right that a request requires: read, write, create or revoke."""
    if method == "GET":
        return READ
    if method == "POST" and "{" not in template:
        return CREATE
    return REVOKE if (method, template) == ("POST", kinds.SSH_REVOCATIONS.path) else WRITE


def _covers_one(key_scopes: Sequence[str], general_scope: str) -> bool:
    """Return whether a key's scopes cover `general_scope`, which has no id, for at least one id."""
    ids = [scope.partition("@")[2] for scope in key_scopes if "@" in scope]
    return any(covers(key_scopes, f"{general_scope}@{id}") for id in ids)


def _references(values: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the ids that a body names, with their dotted paths."""
    for name, value in values.items():
        if name in _REFERENCES:
            yield from _ids(value, f"{at}{name}")
        elif name in kinds.MODULES and isinstance(value, Mapping):
            yield from _references(value, f"{at}{name}.")


def _ids(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        ids_by_path = {path: value}
    elif isinstance(value, Mapping):
        ids_by_path = {f"{path}.{id}": id for id in value}
    else:
        ids_by_path = {f"{path}.{index}": id for index, id in enumerate(value or ())}
    yield from ((path, id) for path, id in ids_by_path.items() if kinds.is_id(id))


def _collection_of(kind: Kind) -> str:
    return kind.path.split("/")[1]


@cache
def _collections() -> tuple[str, ...]:
    return tuple(sorted({ACCOUNT, *(_collection_of(kind) for kind in kinds.TABLE if kind.array)}))


def _rights(collection: str) -> tuple[str, ...]:
    create = () if collection in _WITHOUT_CREATE else (CREATE,)
    return (READ, WRITE, *create, *((REVOKE,) if collection == _AUTHORITIES else ()))


def _rights_with_id(collection: str) -> tuple[str, ...]:
    if collection in _WITHOUT_ID:
        return ()
    return tuple(right for right in _rights(collection) if right != CREATE or collection in CERTIFICATES)


@cache
def _named_kinds(collection: str) -> tuple[Kind, ...]:
    """Return the kinds of ids that a scope of a collection can contain.

    For example, a scope of `ssh_user_certificates` can contain the id of an SSH authority.
    """
    if collection in CERTIFICATES:
        return (kinds.SSH_CERTIFICATE_AUTHORITIES,)
    candidates = [
        kind for kind in kinds.TABLE if kind.path and _collection_of(kind) == collection and "{" not in kind.path
    ]
    return tuple(kind for kind in candidates if not any(kind.is_covered_by(other) for other in candidates))
