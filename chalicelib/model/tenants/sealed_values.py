"""The attributes of records that contain encrypted ("sealed") values, and the encryption contexts of these values.

A test compares this list with every call that encrypts a value.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chalicelib.model.edges.modules.basic_auth import password_context
from chalicelib.model.edges.modules.webhook_verification import webhook_context
from chalicelib.model.names import issued_certificates, operator_certificate
from chalicelib.model.sign_in import managed_apps, sessions, signing_keys
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import change_log, item_keys

Record = Mapping[str, Any]
_SCOPES = (managed_apps.SCOPE, signing_keys.SCOPE, issued_certificates.ORDERS, operator_certificate.SCOPE)
# attribute paths in the records of routes, and for passwords also of reservations
_PASSWORDS = ("parts", "basic_auth")
_WEBHOOK = ("parts", "webhook_verification")
_OAUTH = ("parts", "oauth", "provider")


@dataclass(frozen=True)
class SealedValue:
    """A ciphertext in a record: the path of its attribute, and its encryption context."""

    path: tuple[str, ...]
    ciphertext: bytes
    context: Mapping[str, str]


def find(record: Record) -> list[SealedValue]:
    """Return all encrypted values of a record."""
    return [value for value in _find(record) if isinstance(value.ciphertext, bytes) and value.ciphertext]


def selection() -> Condition:
    """Return the DynamoDB filter for records that may have encrypted values."""
    texts = (
        "attribute_exists(#sealed)",
        "attribute_exists(#parts.#basic_auth)",
        "attribute_exists(#parts.#oauth)",
        "attribute_exists(#parts.#webhook_verification)",
        "begins_with(#scope, :sessions)",
        *(f"#scope = :scope{number}" for number in range(len(_SCOPES))),
    )
    scopes = {f"scope{number}": scope for number, scope in enumerate(_SCOPES)}
    return Condition(" OR ".join(texts), {"sessions": sessions.PREFIX, **scopes})


def seal_again(record: Record, value: SealedValue, key: str) -> bool:
    """Encrypt a value of a stored record under the KMS key `key`. Return False if this is not necessary.

    Return True also if another process has changed the value meanwhile, so that nothing was written. The record's
    revision does not change, because the secret is the same. Raises vault.Unreadable, aws.Unavailable.
    """
    again = vault.seal_again(value.ciphertext, value.context, key)
    if again is None:
        return False
    path = ".".join(value.path)
    same = Condition(f"{'.'.join(f'#{name}' for name in value.path)} = :sealed", {"sealed": value.ciphertext})
    write = Write.update(record["scope"], record["id"], same, sets={path: again})
    with suppress(TransactionFailed):
        # Edge hosts identify a secret by its encrypted bytes. An entry of the change log makes them read the new bytes.
        dynamodb.transact([write, *change_log.entries([write])])
    return True


def remove(record: Record) -> dict[str, Any]:
    """Return a record without its encrypted values."""
    copy = {name: value for name, value in record.items() if name != "sealed"}
    for value in find(copy):
        copy = _clear(copy, value.path)
    return copy


def _find(record: Record) -> Iterator[SealedValue]:
    scope, id = item_keys.find_item(record["scope"], record["id"])
    account, body = scope.partition("#")[0], _map(record, "body")
    item_context = vault.context(account, id)
    yield from (SealedValue(("sealed", name), value, item_context) for name, value in _map(record, "sealed").items())
    for name, provider in _map(record, *_OAUTH).items():
        secret = provider.get("client_secret") if isinstance(provider, Mapping) else None
        yield SealedValue((*_OAUTH, name, "client_secret"), secret or b"", item_context)
    sealed = _map(record, *_PASSWORDS).get("passwords")
    yield SealedValue((*_PASSWORDS, "passwords"), sealed or b"", password_context(item_context))
    secret = _map(record, *_WEBHOOK).get("secret")
    yield SealedValue((*_WEBHOOK, "secret"), secret or b"", webhook_context(item_context))
    if scope == managed_apps.SCOPE:
        yield SealedValue(("body", "client_secret"), body.get("client_secret", b""), managed_apps.CONTEXT)
    elif scope == signing_keys.SCOPE:
        yield SealedValue(("body", "sealed"), body.get("sealed", b""), signing_keys.CONTEXT)
    elif scope.startswith(sessions.PREFIX) and isinstance(body.get("account"), str):
        yield SealedValue(("body", "tokens"), body.get("tokens", b""), sessions.context(body["account"]))
    elif scope == issued_certificates.ORDERS and isinstance(body.get("certificate_id"), str):
        context = vault.context(id.partition("/")[0], body["certificate_id"])
        yield SealedValue(("body", "key"), body.get("key", b""), context)
    elif scope == operator_certificate.SCOPE:
        yield SealedValue(("body", "key"), body.get("key", b""), operator_certificate.CONTEXT)


def _map(record: Record, *path: str) -> Record:
    """Return the map at a path in a record, {} if there is none."""
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _clear(record: Record, path: tuple[str, ...]) -> dict[str, Any]:
    """Return a record with empty bytes at a path in place of the encrypted value."""
    name, *rest = path
    return {**record, name: _clear(record[name], (*rest,)) if rest else b""}
