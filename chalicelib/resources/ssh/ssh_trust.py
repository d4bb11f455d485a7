"""The public key and revocation list of an SSH authority, which servers fetch without a token.

Neither contains a secret. Both are in one record, which is found by the authority's id. After the deletion of the
authority, this record stays until the last revocation has ended.
"""

import hashlib
from typing import Any

from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Conflict, NotFound
from chalicelib.http.static import BINARY, TEXT, Binary, Static
from chalicelib.model.base import kinds
from chalicelib.model.ssh import revoked
from chalicelib.schema.rules import After
from chalicelib.schema.sizes import MAX_ANSWER
from chalicelib.storage.records import revocation_lists
from chalicelib.storage.records.revocation_lists import Head

_KIND = kinds.SSH_CERTIFICATE_AUTHORITIES
_MAX_ALSO = 10
# The most revocations in one response, which can contain several revocation lists. A serial takes 8 bytes, and base64
# adds a third, so that such a response is below Lambda's limit.
_MAX_ENTRIES = 500_000
_TOO_LARGE = "These lists are too large for one answer: request fewer of them at once."


def _split_ids(text: str) -> list[str]:
    ids = text.split(",")
    if len(ids) > _MAX_ALSO or not all(map(_KIND.has, ids)):
        raise ValueError(f"must be 1 to {_MAX_ALSO} ids of the form {_KIND.prefix}_…, separated by commas")
    return ids


_ALSO = After(
    _split_ids,
    {
        "type": "string",
        "pattern": f"^{_KIND.prefix}_[0-9A-Za-z]{{27}}(,{_KIND.prefix}_[0-9A-Za-z]{{27}}){{0,{_MAX_ALSO - 1}}}$",
        "description": f"The ids of at most {_MAX_ALSO} more authorities of the same account, separated by commas. "
        "The response then contains the revocations of all these authorities.",
    },
)


def krl(call: Call) -> Binary:
    """The key revocation list (KRL) of an authority in OpenSSH's format, for RevokedKeys of sshd.

    It is raw with `Accept: application/octet-stream`, otherwise base64 text.
    """
    authority_ids = sorted({call.path["id"], *call.query.get("also", ())})
    list_heads = revocation_lists.read_each(authority_ids)
    heads = [head for head in list_heads if head]
    if len(heads) < len(list_heads) or len({head.account for head in heads}) > 1:
        raise _build_not_found()
    stamps = ",".join(f"{head.authority}:{head.stamp}" for head in heads)
    return Binary(hashlib.sha256(stamps.encode()).hexdigest()[:32], lambda: _list(heads))


def public_key(call: Call) -> Static:
    """The public key of an authority in one line, for TrustedUserCAKeys of sshd and `@cert-authority` of ssh."""
    line = _read_head(call.path["id"]).public_key
    return Static(f"{line}\n", {"Content-Type": TEXT, "Cache-Control": "no-cache"})


def _list(heads: list[Head]) -> bytes:
    if sum(head.count for head in heads) > _MAX_ENTRIES:
        raise Conflict(_TOO_LARGE)
    content = revoked.build_krl(heads)
    if len(content) * 4 // 3 > MAX_ANSWER:
        raise Conflict(_TOO_LARGE)
    return content


def _read_head(id: str) -> Head:
    head = revocation_lists.read(id)
    if head is None:
        raise _build_not_found()
    return head


def _build_not_found() -> NotFound:
    return NotFound(f"This account has no resource with that id under {_KIND.path}.")


class _Trust:
    def endpoints(self) -> tuple[Endpoint, ...]:
        text = TEXT.partition(";")[0]
        krls: dict[str, Any] = {"query": {"also": _ALSO}, "media": (text, BINARY), "errors": (Conflict,)}
        return (
            Endpoint("GET", f"{_KIND.item_path}/krl", 200, krl, authorizer=None, **krls),
            Endpoint("GET", f"{_KIND.item_path}/public_key", 200, public_key, authorizer=None, media=(text,)),
        )


ROUTES = _Trust()
