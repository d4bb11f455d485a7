"""Policies of automatic certificates, and the settings without which a domain cannot have a policy."""

import hashlib
import os
from dataclasses import dataclass
from typing import Literal

from chalicelib import domains
from chalicelib.storage.records import item_keys

Authority = Literal["letsencrypt"]
PolicyKeyType = Literal["ecdsa", "rsa"]

NOT_OFFERED = "must not be set: this service offers no automatic certificates"
NO_ZONE = (
    "must not be set for a wildcard: the operator has not set ACME_DNS_ZONE, which certificates for wildcards require"
)
EARLIER_FORMAT = "must be null until the operator sets RECORD_FORMAT to 4"
COVERED = "must not be set below the domain of tunnels: the operator's certificate covers these names"


@dataclass(frozen=True)
class CertificatePolicy:
    """A policy: the CA that issues the certificates of a domain, and the type of their keys."""

    authority: Authority
    private_key_type: PolicyKeyType = "ecdsa"


def is_offered() -> bool:
    """Return whether this service offers automatic certificates, for which ACME_DIRECTORY must be set."""
    return bool(os.environ.get("ACME_DIRECTORY", "").strip())


def zone() -> str:
    """Return ACME_DNS_ZONE in its normal form, "" if it is unset. Raises ValueError."""
    text = os.environ.get("ACME_DNS_ZONE", "").strip()
    return domains.normalize(text) if text else ""


def find_objection(domain: str, tunnel_domain: str) -> str:
    """Return the reason why a domain cannot have a policy, or "". Raises ValueError if ACME_DNS_ZONE is malformed."""
    if not is_offered():
        return NOT_OFFERED
    if item_keys.written_format() < 4:  # running processes of earlier versions could not read the reservation
        return EARLIER_FORMAT
    if domains.is_below(domain, tunnel_domain):
        return COVERED
    return NO_ZONE if domain.startswith(domains.WILDCARD) and not zone() else ""


def alias_target(id: str) -> str:
    """Return the name to which the DNS alias for challenges of a reserved domain must point.

    Its first label is a digest of the reservation's id. Ids are never used again, so the name is unique. Returns ""
    without ACME_DNS_ZONE. Raises ValueError.
    """
    label = hashlib.sha256(f"acme-challenge {id}".encode()).hexdigest()[:32]
    return f"{label}.{zone()}" if zone() else ""
