"""Requests to the CA by ACME (RFC 8555, renewal information of RFC 9773). Every method blocks.

Errors of the CA become failures. This file is the only one that imports `acme` and `josepy`.
"""

import base64
import email.utils
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import requests
from acme import challenges, client, errors, messages
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from josepy.errors import DeserializationError
from josepy.json_util import field as json_field
from josepy.jwa import ES256
from josepy.jwk import JWKEC
from josepy.util import ComparableECKey

from chalicelib.model.tls.renewals import Method
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.rules import outcomes
from edge.issuer.rules.outcomes import Failure
from edge.issuer.rules.renewal_times import RenewalWindow

OrderStatus = Literal["pending", "ready", "processing", "valid", "invalid"]

_TIMEOUT = 20  # seconds for one request
_MAX_REPEATS = 5  # of a request with a rejected nonce
_REJECTED = frozenset({"rejectedIdentifier", "unsupportedIdentifier"})
_OF_CHALLENGES = frozenset({"connection", "dns", "dnssec", "incorrectResponse", "tls", "unauthorized"})
_CHALLENGES: Mapping[Method, type[challenges.KeyAuthorizationChallenge]] = {
    "http-01": challenges.HTTP01,
    "dns-01": challenges.DNS01,
}


@dataclass(frozen=True)
class CaSettings:
    """The CA and our account there. `eab` is the key id and key of an external account binding, or None."""

    directory: str
    contact: str = ""
    profile: str = ""
    bundle: str = ""
    eab: tuple[str, str] | None = field(default=None, repr=False)


class NewOrder(messages.NewOrder):
    """A new order that names the certificate that it replaces (RFC 9773, section 5)."""

    replaces: str | None = json_field("replaces", omitempty=True)


class _Client(client.ClientV2):
    """A client that repeats requests with a rejected nonce (RFC 8555, section 6.5), more often than the library."""

    def _post(self, *args: Any, **kwargs: Any) -> requests.Response:
        for _ in range(_MAX_REPEATS):
            with _suppress_rejected_nonces():
                return super()._post(*args, **kwargs)
        return super()._post(*args, **kwargs)


class AcmeClient:
    """A connection to the CA with one account."""

    def __init__(
        self, settings: CaSettings, key: EllipticCurvePrivateKey, *, now: Callable[[], float] = time.time
    ) -> None:
        self._settings, self._now, self._retry_after = settings, now, 0
        jwk = JWKEC(key=ComparableECKey(key))
        self._net = client.ClientNetwork(jwk, alg=ES256, user_agent="tunnel-edge", timeout=_TIMEOUT)
        if settings.bundle:
            self._net.session.verify = settings.bundle
            self._net.verify_ssl = settings.bundle  # type: ignore[assignment]  # requests takes a path too
        self._net.session.hooks["response"].append(self._note)
        with self._failures():
            self._acme = _Client(_Client.get_directory(settings.directory, self._net), self._net)

    @property
    def identities(self) -> tuple[str, ...]:
        """Return the names of the CA in CAA records."""
        meta = getattr(self._acme.directory, "meta", None)
        return tuple(meta.caa_identities or ()) if meta else ()

    def register(self) -> str:
        """Register the account, or find it; return its URL. Raises AttemptFailed."""
        with self._failures():
            registration = messages.NewRegistration.from_data(
                terms_of_service_agreed=True, **self._contact(), **self._binding()
            )
            try:
                return str(self._acme.new_account(registration).uri)
            except errors.ConflictError as known:
                found = messages.RegistrationResource(uri=known.location, body=messages.Registration())
                self._net.account = found
                return str(known.location)

    def order(self, domain: str, replaces: x509.Certificate | None = None) -> str:
        """Order a certificate; return the URL of the order. Raises AttemptFailed."""
        named = renewal_id(replaces) if replaces and self._knows_renewals else None
        identifier = messages.Identifier(typ=messages.IDENTIFIER_FQDN, value=domain)
        new = NewOrder(identifiers=[identifier], profile=self._settings.profile or None, replaces=named)
        with self._failures():
            return str(self._acme._post(self._acme.directory["newOrder"], new).headers["Location"])

    def status(self, order: str) -> OrderStatus:
        """Return the status of an order. Raises AttemptFailed."""
        return str(self._read(order).status.name)  # type: ignore[return-value]

    def challenges(self, order: str, method: Method) -> list[Challenge]:
        """Return the pending challenges of an order. Raises AttemptFailed, also for one that the CA rejected."""
        found = []
        for url in self._read(order).authorizations:
            authorization = self._authorization(url)
            if authorization.status == messages.STATUS_PENDING:
                found.append(self._challenge(authorization, method))
            elif authorization.status != messages.STATUS_VALID:
                raise _rejected(authorization)
        return found

    def answer(self, challenge: Challenge) -> None:
        """Tell the CA that the answer of a challenge can be read. Raises AttemptFailed."""
        with self._failures():
            self._acme.answer_challenge(challenge.body, challenge.body.response(self._net.key))

    def finalize(self, order: str, request: x509.CertificateSigningRequest) -> None:
        """Send the certificate request of an order that is ready. Raises AttemptFailed."""
        body = self._read(order)
        with self._failures():
            self._acme._post(body.finalize, messages.CertificateRequest(csr=request))

    def download(self, order: str) -> str:
        """Return the chain of a valid order as PEM. Raises AttemptFailed."""
        body = self._read(order)
        with self._failures():
            return self._acme._post_as_get(body.certificate).text

    def renewal_window(self, certificate: x509.Certificate) -> RenewalWindow | None:
        """Return when the CA suggests to renew a certificate, or None. Raises AttemptFailed."""
        if not self._knows_renewals:
            return None
        url = f"{self._acme.directory['renewalInfo']}/{renewal_id(certificate)}"
        with self._failures():
            response = self._net.get(url, content_type="application/json")
            window = messages.RenewalInfo.from_json(response.json()).suggested_window
        start, end = int(window.start.timestamp()), int(window.end.timestamp())
        return RenewalWindow(start, end, _seconds(response.headers.get("Retry-After", ""), self._now()))

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        """Revoke a certificate. Raises AttemptFailed."""
        with self._failures():
            self._acme.revoke(certificate, reason)

    @property
    def _knows_renewals(self) -> bool:
        return hasattr(self._acme.directory, "renewalInfo")

    def _contact(self) -> dict[str, Any]:
        return {"contact": (self._settings.contact,)} if self._settings.contact else {}

    def _binding(self) -> dict[str, Any]:
        if self._settings.eab is None:
            return {}
        id, key = self._settings.eab
        public = self._net.key.public_key()  # type: ignore[union-attr]
        binding = messages.ExternalAccountBinding.from_data(public, id, key, self._acme.directory)
        return {"external_account_binding": binding}

    def _read(self, order: str) -> messages.Order:
        with self._failures():
            body: messages.Order = messages.Order.from_json(self._acme._post_as_get(order).json())
        return body

    def _authorization(self, url: str) -> messages.Authorization:
        with self._failures():
            body: messages.Authorization = messages.Authorization.from_json(self._acme._post_as_get(url).json())
        return body

    def _challenge(self, authorization: messages.Authorization, method: Method) -> Challenge:
        kind, domain = _CHALLENGES[method], authorization.identifier.value
        body = next((it for it in authorization.challenges if isinstance(it.chall, kind)), None)
        if body is None:
            raise AttemptFailed(outcomes.internal(), f"the CA offers no {method} for {domain}")
        _, value = body.chall.response_and_validation(self._net.key)
        return Challenge(domain, body.chall.encode("token"), value, body)

    def _note(self, response: requests.Response, **_: object) -> None:
        """Remember the Retry-After of the last response."""
        self._retry_after = _seconds(response.headers.get("Retry-After", ""), self._now())

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn errors of the CA and of the network into AttemptFailed."""
        try:
            yield
        except messages.Error as error:
            not_before = int(self._now()) + self._retry_after if self._retry_after else 0
            raise AttemptFailed(_failure(error, not_before), str(error)) from None
        except (errors.Error, requests.RequestException, DeserializationError, ValueError) as error:
            raise AttemptFailed(outcomes.ca_unreachable(), f"{type(error).__name__}: {error}") from None


@contextmanager
def _suppress_rejected_nonces() -> Iterator[None]:
    """Ignore that the CA has rejected a nonce."""
    try:
        yield
    except messages.Error as error:
        if error.code != "badNonce":
            raise


def renewal_id(certificate: x509.Certificate) -> str:
    """Return the identifier of a certificate in renewal information (RFC 9773, section 4.1)."""
    issuer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""
    serial = certificate.serial_number.to_bytes(certificate.serial_number.bit_length() // 8 + 1)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (issuer, serial))


def _failure(error: messages.Error, not_before: int) -> Failure:
    """Return the failure for a problem that the CA reported."""
    detail, domain = error.detail or error.title or "", error.identifier.value if error.identifier else "this one"
    match error.code:
        case "rateLimited":
            return outcomes.rate_limited("the CA admits no more orders", not_before)
        case "caa":
            return outcomes.caa_forbids("the domain", ())
        case code if code in _REJECTED:
            return outcomes.rejected_identifier(domain, detail)
        case code if code in _OF_CHALLENGES:
            return outcomes.challenge_failed(detail)
        case "serverInternal":
            return outcomes.ca_unreachable(not_before)
    return outcomes.internal()


def _rejected(authorization: messages.Authorization) -> AttemptFailed:
    found = [it.error for it in authorization.challenges if it.error]
    if not found:
        return AttemptFailed(outcomes.internal(), f"an authorization is {authorization.status.name}")
    return AttemptFailed(_failure(found[0], 0), str(found[0]))


def _seconds(retry_after: str, now: float) -> int:
    """Return the seconds of a Retry-After, which may be a date; 0 if it is absent or malformed."""
    if retry_after.strip().isdigit():
        return int(retry_after)
    try:
        return max(0, int(email.utils.parsedate_to_datetime(retry_after).timestamp() - now))
    except (TypeError, ValueError):
        return 0
