"""Automatic certificates of reserved domains: the policy in requests, the policy and status in responses."""

from typing import Annotated, Any

from chalicelib import clock
from chalicelib.http.errors import InvalidRequest
from chalicelib.model.names import base_names, issued_certificates, renewal_schedule
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import certificate_policies
from chalicelib.model.tls.certificate_policies import Authority, CertificatePolicy, PolicyKeyType
from chalicelib.model.tls.renewals import Renewal
from chalicelib.schema.fields import Timestamp
from chalicelib.schema.rules import if_zero
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

POLICY, CERTIFICATE = "certificate_management_policy", "certificate_id"
_NOT_COVERED = "must be an uploaded certificate, or an automatic certificate that covers the domain"
_EXCLUSIVE = "must not be set together with {}: DELETE the other one first"


class CertificatePolicyGiven(Shape):
    """The settings for automatic certificates of a domain."""

    authority: Authority
    """Who issues the certificate: `letsencrypt` is the authority that the operator has chosen."""

    private_key_type: Annotated[PolicyKeyType, if_zero("ecdsa")] = "ecdsa"
    """Type of the certificate's private key: `ecdsa` (P-256) or `rsa` (2048 bits)."""


class CertificatePolicyShown(Shape):
    """The settings for automatic certificates of a domain."""

    authority: Authority
    """Who issues the certificate: `letsencrypt` is the authority that the operator has chosen."""

    private_key_type: PolicyKeyType
    """Type of the certificate's private key."""


class ProvisioningJob(Shape):
    """An order of a certificate that has not succeeded yet."""

    error_code: str | None
    """Why the last attempt failed, in a word; null during the first attempt."""

    msg: str | None
    """Why the last attempt failed, and what to do, as a sentence; null during the first attempt."""

    started_at: Timestamp
    """When the job started, RFC 3339."""

    retries_at: Timestamp | None
    """When the next attempt follows, RFC 3339; null during an attempt."""


class CertificateStatus(Shape):
    """The state of the automatic certificate of a domain."""

    renews_at: Timestamp | None
    """When the certificate is renewed, RFC 3339; null before the first certificate."""

    provisioning_job: ProvisioningJob | None
    """The order of a certificate that has not succeeded yet; null if no order is due."""


def check(stored: ReservedDomain, policy: CertificatePolicy | None) -> None:
    """Raise InvalidRequest if both a certificate and a policy are set, or the domain cannot have the policy."""
    if stored.policy and stored.chosen_certificate_id:
        sides = ((CERTIFICATE, POLICY), (POLICY, CERTIFICATE))
        raise InvalidRequest.of({field: _EXCLUSIVE.format(other) for field, other in sides})
    objection = certificate_policies.find_objection(stored.domain, base_names.domain()) if policy else ""
    if objection:
        raise InvalidRequest.of({POLICY: objection})


def check_certificate(account: str, stored: ReservedDomain) -> None:
    """Raise InvalidRequest if a certificate was issued for another domain and does not cover this one."""
    id = stored.chosen_certificate_id
    if id and certificate_policies.is_offered() and not issued_certificates.covers(account, id, stored.domain):
        raise InvalidRequest.of({CERTIFICATE: _NOT_COVERED})


def responses(stored: ReservedDomain, item: Item) -> dict[str, Any]:
    """Return the response fields about the automatic certificate."""
    renewal = renewal_schedule.read(item) if stored.policy else None
    return {
        "certificate_management_status": _build_status(renewal) if renewal else None,
        "acme_challenge_cname_target": (certificate_policies.alias_target(item.id) or None) if stored.policy else None,
    }


def _build_status(renewal: Renewal) -> dict[str, Any]:
    job = {
        "error_code": renewal.error_code or None,
        "msg": renewal.msg or None,
        "started_at": _format_time(renewal.started_at),
        "retries_at": _format_time(renewal.retries_at),
    }
    return {"renews_at": _format_time(renewal.renews_at), "provisioning_job": job if renewal.started_at else None}


def _format_time(second: int) -> str | None:
    return clock.rfc3339(clock.at(second)) if second else None
