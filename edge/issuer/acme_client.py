"""Requests to the CA by ACME (RFC 8555, renewal information of RFC 9773). Every method blocks.

Errors of the CA become AttemptFailed. Only this file imports `acme` and `josepy`.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import requests
from acme import challenges, client, errors, messages
from acme.jws import JWS
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from josepy.errors import DeserializationError
from josepy.json_util import field as json_field
from josepy.jwa import ES256
from josepy.jwk import JWKEC
from josepy.util import ComparableECKey

from chalicelib.model.tls.renewals import Method
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.rules import outcomes, renewal_times
from edge.issuer.rules.outcomes import Failure
from edge.issuer.rules.preflight import CaAccount
from edge.issuer.rules.renewal_times import RenewalWindow

B = TypeVar("B", messages.Order, messages.Authorization)
OrderStatus = Literal["pending", "ready", "processing", "valid", "invalid", "absent"]

_TIMEOUT = 20  # timeout of one request in seconds
_MAX_REPEATS = 5  # how often a request with a rejected nonce is repeated
_ABSENT = frozenset({404, 410})  # HTTP statuses that mean that the CA has no such order
_FOREIGN = frozenset({"accountDoesNotExist", "unauthorized"})  # error codes for an order of another account
_CHALLENGES: Mapping[Method, type[challenges.KeyAuthorizationChallenge]] = {
    "http-01": challenges.HTTP01,
    "dns-01": challenges.DNS01,
}


@dataclass(frozen=True)
class CaSettings:
    """The CA, and the operator's account there. `account` is the URL of the account, or "" if it is unknown.

    `eab` is the key id and key of an external account binding, or None.
    """

    directory: str
    contact: str = ""
    profile: str = ""
    bundle: str = ""
    account: str = ""
    eab: tuple[str, str] | None = field(default=None, repr=False)


class NewOrder(messages.NewOrder):
    """A new order, which can name the certificate to replace (RFC 9773, section 5)."""

    replaces: str | None = json_field("replaces", omitempty=True)


class _Client(client.ClientV2):
    """The ACME library's client, with more repetitions after rejected nonces (RFC 8555, section 6.5)."""

    def _post(self, *args: Any, **kwargs: Any) -> requests.Response:
        for _ in range(_MAX_REPEATS):
            try:
                return super()._post(*args, **kwargs)
            except messages.Error as error:
                if error.code != "badNonce":
                    raise
        return super()._post(*args, **kwargs)


class _RequestFailed(AttemptFailed):
    """A request failed. `status` is 0 without an HTTP response. `code` is the error code of ACME, or ""."""

    def __init__(self, failure: Failure, reason: str, status: int, code: str = "") -> None:
        super().__init__(failure, reason)
        self.status, self.code = status, code


class AcmeClient:
    """Sends requests to the CA with one account. All threads share it. The first request registers the account."""

    def __init__(
        self, settings: CaSettings, key: EllipticCurvePrivateKey, *, now: Callable[[], float] = time.time
    ) -> None:
        self._settings, self._account, self._now = settings, settings.account, now
        self._retry_after = self._status = 0
        self._lock, self._connected = threading.RLock(), False
        self._net = self._network(key)

    @property
    def authority(self) -> CaAccount:
        """Return the CA's names in CAA records, and the URL of the account. Raises AttemptFailed."""
        with self._requests() as acme:
            meta = getattr(acme.directory, "meta", None)
            identities = tuple(meta.caa_identities or ()) if meta else ()
            return CaAccount(identities, str(self._net.account.uri))  # type: ignore[union-attr]

    @property
    def knows_renewals(self) -> bool:
        """Return whether the CA offers renewal information (RFC 9773). Raises AttemptFailed."""
        with self._requests() as acme:
            return hasattr(acme.directory, "renewalInfo")

    def order(self, names: Sequence[str], replaces: x509.Certificate | None = None) -> str:
        """Order a certificate; return the URL of the order. Raises AttemptFailed."""
        identifiers = [messages.Identifier(typ=messages.IDENTIFIER_FQDN, value=name) for name in names]
        named = renewal_times.identify(replaces) if replaces else None
        new_order = NewOrder(identifiers=identifiers, profile=self._settings.profile or None, replaces=named)
        with self._requests() as acme:
            return str(acme._post(acme.directory["newOrder"], new_order).headers["Location"])

    def status(self, order: str) -> OrderStatus:
        """Return the status of an order, or "absent" if the account has no such order. Raises AttemptFailed."""
        try:
            return str(self._fetch(order, messages.Order).status.name)  # type: ignore[return-value]
        except _RequestFailed as failed:
            if failed.status in _ABSENT or (failed.code in _FOREIGN and self._can_use_account()):
                return "absent"
            raise

    def challenges(self, order: str, method: Method) -> list[Challenge]:
        """Return the pending challenges of an order. Raises AttemptFailed, also if the CA has rejected a challenge."""
        challenges = []
        for url in self._fetch(order, messages.Order).authorizations:
            authorization = self._fetch(url, messages.Authorization)
            if authorization.status == messages.STATUS_PENDING:
                challenges.append(self._challenge(authorization, method))
            elif authorization.status != messages.STATUS_VALID:
                raise _build_rejection(authorization)
        return challenges

    def answer(self, challenge: Challenge) -> None:
        """Notify the CA that it can check the answer of a challenge. Raises AttemptFailed."""
        with self._requests() as acme:
            acme.answer_challenge(challenge.body, challenge.body.response(self._net.key))

    def finalize(self, order: str, request: x509.CertificateSigningRequest) -> None:
        """Send the certificate signing request (CSR) for an order with the status "ready". Raises AttemptFailed."""
        body = self._fetch(order, messages.Order)
        with self._requests() as acme:
            acme._post(body.finalize, messages.CertificateRequest(csr=request))

    def download(self, order: str) -> str:
        """Return the certificate chain of an order with the status "valid", as PEM. Raises AttemptFailed."""
        body = self._fetch(order, messages.Order)
        with self._requests() as acme:
            return acme._post_as_get(body.certificate).text

    def renewal_window(self, certificate: x509.Certificate) -> RenewalWindow | None:
        """Return when the CA suggests to renew a certificate, or None. Raises AttemptFailed."""
        if not self.knows_renewals:
            return None
        with self._requests() as acme:
            url = f"{acme.directory['renewalInfo']}/{renewal_times.identify(certificate)}"
            response = self._net.get(url, content_type="application/json")
            window = messages.RenewalInfo.from_json(response.json()).suggested_window
        start, end = int(window.start.timestamp()), int(window.end.timestamp())
        return RenewalWindow(
            start, end, renewal_times.parse_retry_after(response.headers.get("Retry-After", ""), self._now())
        )

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        """Revoke a certificate, unless it is revoked already. Raises AttemptFailed."""
        with self._requests() as acme:
            try:
                acme.revoke(certificate, reason)
            except messages.Error as error:
                if error.code != "alreadyRevoked":
                    raise

    def has_key(self, key: EllipticCurvePrivateKey) -> bool:
        """Return whether this client signs its requests with this key."""
        return bool(self._net.key == JWKEC(key=ComparableECKey(key)))

    def knows_key(self, key: EllipticCurvePrivateKey) -> bool:
        """Return whether the CA has an account with this key. Raises AttemptFailed."""
        with self._requests() as acme:
            try:
                existing = messages.NewRegistration(only_return_existing=True)
                _Client(acme.directory, self._network(key)).new_account(existing)
            except errors.ConflictError:  # the ACME library reports by this error that the account exists
                return True
            except messages.Error as error:
                if error.code != "accountDoesNotExist":
                    raise
                return False
        return True

    def change_key(self, key: EllipticCurvePrivateKey) -> None:
        """Replace the key of the account (RFC 8555, section 7.3.5). Raises AttemptFailed."""
        with self._requests() as acme:
            url, old_key = acme.directory["keyChange"], self._net.key.public_key()  # type: ignore[union-attr]
            change = {"account": self._net.account.uri, "oldKey": old_key.to_json()}  # type: ignore[union-attr]
            new_key = JWKEC(key=ComparableECKey(key))
            acme._post(url, JWS.sign(json.dumps(change).encode(), new_key, ES256, None, url))
            self._net.key = new_key

    def _binding(self, directory: messages.Directory) -> dict[str, Any]:
        if self._settings.eab is None:
            return {}
        id, key = self._settings.eab
        public = self._net.key.public_key()  # type: ignore[union-attr]
        binding = messages.ExternalAccountBinding.from_data(public, id, key, directory)
        return {"external_account_binding": binding}

    def _fetch(self, url: str, kind: type[B]) -> B:
        with self._requests() as acme:
            body: B = kind.from_json(acme._post_as_get(url).json())
        return body

    def _can_use_account(self) -> bool:
        """Return whether the CA accepts requests of the account, which can be deactivated."""
        with suppress(AttemptFailed), self._requests() as acme:
            acme._post_as_get(self._net.account.uri)  # type: ignore[union-attr]
            return True
        return False

    def _challenge(self, authorization: messages.Authorization, method: Method) -> Challenge:
        kind, domain = _CHALLENGES[method], authorization.identifier.value
        body = next((body for body in authorization.challenges if isinstance(body.chall, kind)), None)
        if body is None:
            raise AttemptFailed(outcomes.internal(), f"the CA offers no {method} challenge for {domain}")
        _, value = body.chall.response_and_validation(self._net.key)
        return Challenge(domain, body.chall.encode("token"), value, body)

    def _note(self, response: requests.Response, **_: object) -> None:
        """Remember the status and the Retry-After header of the latest response."""
        self._status = response.status_code
        self._retry_after = renewal_times.parse_retry_after(response.headers.get("Retry-After", ""), self._now())

    def _network(self, key: EllipticCurvePrivateKey) -> client.ClientNetwork:
        """Return a network client of the library that signs requests with a key."""
        jwk = JWKEC(key=ComparableECKey(key))
        network = client.ClientNetwork(jwk, alg=ES256, user_agent="tunnel-edge", timeout=_TIMEOUT)
        if self._settings.bundle:
            network.session.verify = self._settings.bundle
            network.verify_ssl = self._settings.bundle  # type: ignore[assignment]  # requests takes a path too
        network.session.hooks["response"].append(self._note)
        return network

    def _connect(self) -> _Client:
        """Read the CA's directory, and register the account, unless its URL is known.

        If another issuer has changed the key of a known account, a registration would create a second account.
        """
        if not self._connected:
            self._net.account = None
            self._acme = _Client(_Client.get_directory(self._settings.directory, self._net), self._net)
            url = self._account or self._register(self._acme)
            self._net.account = messages.RegistrationResource(uri=url, body=messages.Registration())
            self._connected = True
        return self._acme

    def _register(self, acme: _Client) -> str:
        """Register an account with the key, unless the CA has one. Return the URL of the account."""
        contact = {"contact": (self._settings.contact,)} if self._settings.contact else {}
        fields: dict[str, Any] = {**contact, **self._binding(acme.directory)}
        try:
            registration = messages.NewRegistration.from_data(terms_of_service_agreed=True, **fields)
            return str(acme.new_account(registration).uri)
        except errors.ConflictError as conflict:
            return str(conflict.location)

    @contextmanager
    def _requests(self) -> Iterator[_Client]:
        """Yield the connected client, to one thread at a time. Errors of the CA or the network become AttemptFailed."""
        try:
            with self._lock:
                self._status = 0
                yield self._connect()
        except messages.Error as error:
            if error.code == "accountDoesNotExist":  # makes the next request register the account again
                self._connected, self._account = False, ""
            not_before = int(self._now()) + self._retry_after if self._retry_after else 0
            is_ours = error.code == "unauthorized"  # the CA refuses the operator's account, not the domain
            failure = outcomes.internal() if is_ours else _failure(error, not_before)
            raise _RequestFailed(failure, str(error), self._status, error.code or "") from None
        except (errors.Error, requests.RequestException, DeserializationError, ValueError) as error:
            raise _RequestFailed(outcomes.ca_unreachable(), f"{type(error).__name__}: {error}", self._status) from None


def _failure(error: messages.Error, not_before: int) -> Failure:
    domain = error.identifier.value if error.identifier else "this one"
    return outcomes.of_problem(error.code or "", error.detail or error.title or "", domain, not_before)


def _build_rejection(authorization: messages.Authorization) -> AttemptFailed:
    problems = [challenge.error for challenge in authorization.challenges if challenge.error]
    if not problems:
        return AttemptFailed(outcomes.internal(), f"the CA set an authorization to {authorization.status.name}")
    return AttemptFailed(_failure(problems[0], 0), str(problems[0]))
