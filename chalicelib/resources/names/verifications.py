"""The response field `verification`: whether the account has proved that it owns a reserved domain."""

from datetime import UTC, datetime
from typing import Any, Literal

from chalicelib import clock
from chalicelib.model.names import proofs
from chalicelib.model.names.proofs import Proof
from chalicelib.schema.fields import Timestamp
from chalicelib.schema.shapes import Shape


class ReservedDomainVerification(Shape):
    """The state of the proof of a domain, and the TXT record that proves it."""

    name: str
    """The name of the TXT record."""

    value: str
    """The value of the TXT record, unique to this reservation."""

    status: Literal["pending", "verified", "lapsing", "lapsed"]
    """`lapsing`: the record has been missing for less than seven days, and the domain is still served."""

    checked_at: Timestamp | None
    """When the record was last checked, RFC 3339; null if never."""

    error: str
    """Why the domain is not proved, as a sentence; empty if it is."""


def response(domain: str, proof: Proof) -> dict[str, Any]:
    """Return the value of the response field `verification`."""
    checked_at = datetime.fromtimestamp(proof.checked_at, UTC)
    return {
        "name": proofs.record_name(domain),
        "value": proof.value,
        "status": proof.status,
        "checked_at": clock.rfc3339(checked_at) if proof.checked_at else None,
        "error": proof.error,
    }
