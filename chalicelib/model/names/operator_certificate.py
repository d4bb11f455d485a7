"""The operator's certificate for TUNNEL_DOMAIN and its wildcard, which all edge hosts serve."""

from dataclasses import asdict, dataclass, field

from chalicelib.model.base.kinds import EDGE
from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.tls import certificate_policies
from chalicelib.model.tls.renewals import Renewal
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import change_log, decoding, items
from chalicelib.storage.records.change_log import ItemKey

ID = "certificate"
SCOPE = items.scope(EDGE, f"/{ID}")
ITEM_KEY = ItemKey(SCOPE, ID)  # in the change log, this primary key makes edge hosts read the certificate
_ORDER, _STATE = "order", "renewal"
CONTEXT = vault.context(EDGE, ID)
_ABSENT = Condition("attribute_not_exists(#id)")


@dataclass(frozen=True)
class OpenedCertificate:
    """The certificate chain as PEM, and its decrypted private key as DER. Do not store the decrypted key."""

    chain: str
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class OperatorRenewal:
    """The state of the operator's certificate, with the revision of its record, or 0 without a record."""

    renewal: Renewal
    revision: int = 0


def alias_target() -> str:
    """Return the name below ACME_DNS_ZONE to which the operator delegates ACME challenges by a DNS alias.

    Return "" without ACME_DNS_ZONE. Raises ValueError.
    """
    return certificate_policies.alias_target(ID)


def read_chain() -> str | None:
    """Return the chain of the operator's certificate as PEM, or None. Raises aws.Unavailable."""
    record = dynamodb.get(SCOPE, ID)
    return str(record["body"]["certificate_pem"]) if record else None


def read_opened() -> OpenedCertificate | None:
    """Return the operator's certificate with its private key, or None. Raises aws.Unavailable."""
    record = dynamodb.get(SCOPE, ID)
    if record is None:
        return None
    return OpenedCertificate(
        record["body"]["certificate_pem"], vault.unseal(record["sealed"]["private_key"], CONTEXT, bytes)
    )


def read_renewal() -> OperatorRenewal:
    """Return the state of the operator's certificate. If no state is stored, return a state with an order due now.

    Raises MalformedRecord, aws.Unavailable.
    """
    record = dynamodb.get(SCOPE, _STATE)
    if record is None:
        return OperatorRenewal(Renewal(0))
    return OperatorRenewal(decoding.decode(Renewal, record["body"]), record["revision"])


def write_renewal(before: OperatorRenewal, renewal: Renewal) -> OperatorRenewal | None:
    """Store the certificate's state. Return None, and write nothing, if another issuer has changed it.

    Raises aws.Unavailable.
    """
    return _commit(before, renewal, [])


def find_order() -> UnfinishedOrder | None:
    """Return the unfinished order of the operator's certificate, or None. Raises MalformedRecord, aws.Unavailable."""
    record = dynamodb.get(SCOPE, _ORDER)
    return decoding.decode(UnfinishedOrder, record["body"]) if record else None


def put_order(order: UnfinishedOrder) -> None:
    """Store an unfinished order of the operator's certificate. Raises aws.Unavailable."""
    dynamodb.do(Write.put({"scope": SCOPE, "id": _ORDER, "body": vars(order), "revision": 1}))


def drop_order() -> None:
    """Remove the unfinished order of the operator's certificate, if there is one. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(SCOPE, _ORDER))


def record(before: OperatorRenewal, order: UnfinishedOrder, chain: str, renewal: Renewal) -> bool:
    """Store a newly issued operator's certificate. An entry of the change log makes all edge hosts read it.

    Return False, and store nothing, if another issuer has changed the certificate's state. Raises aws.Unavailable.
    """
    body, sealed = {"certificate_pem": chain}, {"private_key": order.key}
    put = Write.put({"scope": SCOPE, "id": ID, "body": body, "sealed": sealed, "revision": 1})
    writes = [put, Write.delete(SCOPE, _ORDER), change_log.entry_of(ITEM_KEY)]
    return _commit(before, renewal, writes) is not None


def _commit(before: OperatorRenewal, renewal: Renewal, other_writes: list[Write]) -> OperatorRenewal | None:
    same = Condition("#revision = :before", {"before": before.revision}) if before.revision else _ABSENT
    after = {"scope": SCOPE, "id": _STATE, "body": asdict(renewal), "revision": before.revision + 1}
    try:
        dynamodb.transact([Write.put(after, same), *other_writes])
    except TransactionFailed:
        return None
    return OperatorRenewal(renewal, before.revision + 1)
