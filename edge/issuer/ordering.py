"""Completes one order at the CA. The order is stored, so another issuer can continue it at any step. Blocks."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cryptography import x509

from chalicelib import crypto
from chalicelib.crypto.chains import Chain
from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.tls.certificate_policies import PolicyKeyType
from chalicelib.model.tls.renewals import Method
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.key_making import SealedKey
from edge.issuer.rules import outcomes
from edge.process import log

_PAUSE = 1.0  # seconds between reads of an order's status
_MAX_CHAIN = 65536  # the most bytes of a certificate chain
_ENDED = frozenset({"invalid", "absent"})  # final statuses of an order without a certificate


class OrderingCa(Protocol):
    """The requests to the CA that an order needs. Every method blocks, and raises AttemptFailed."""

    def order(self, names: Sequence[str], replaces: x509.Certificate | None) -> str:
        """Order a certificate; return the URL of the order."""

    def status(self, order: str) -> str:
        """Return the status of an order, or "absent" if the account has no order with this URL."""

    def challenges(self, order: str, method: Method) -> list[Challenge]:
        """Return the pending challenges of an order. Raises AttemptFailed, also if the CA has rejected a challenge."""

    def answer(self, challenge: Challenge) -> None:
        """Notify the CA that it can check the answer of a challenge."""

    def finalize(self, order: str, request: x509.CertificateSigningRequest) -> None:
        """Send the certificate signing request (CSR) of an order."""

    def download(self, order: str) -> str:
        """Return the certificate chain of an order, as PEM."""


class OrderStore(Protocol):
    """Stores the order of one domain, and publishes the answers of its challenges. Every method blocks."""

    def find(self) -> UnfinishedOrder | None:
        """Return the unfinished order, or None."""

    def put(self, order: UnfinishedOrder) -> None:
        """Store an unfinished order."""

    def drop(self) -> None:
        """Remove an order that the CA has ended, and count it as failed."""

    def forget(self) -> None:
        """Remove an order that the CA does not have, without counting it as failed."""

    def admit(self) -> None:
        """Count a new order. Raises AttemptFailed if a limit forbids it."""

    def make_key(self, names: tuple[str, ...], key_type: PolicyKeyType) -> tuple[str, SealedKey]:
        """Create a private key. Return an id for the new certificate, and the encrypted key."""

    def publish(self, challenge: Challenge) -> None:
        """Publish the answer of a challenge. Wait until the CA can read the answer."""

    def withdraw(self) -> None:
        """Remove the answers of all challenges, if there are any."""


@dataclass(frozen=True)
class OrderSpec:
    """The certificate to obtain. `replaces` is the certificate to renew, or None."""

    names: tuple[str, ...]
    key_type: PolicyKeyType
    method: Method
    replaces: x509.Certificate | None = None


@dataclass(frozen=True)
class Obtained:
    """A certificate chain from the CA, and its order, which contains the encrypted key."""

    chain: Chain
    order: UnfinishedOrder


def find_current(ca: OrderingCa, store: OrderStore) -> UnfinishedOrder | None:
    """Return the stored order, or None. Raises AttemptFailed.

    If the CA does not have the stored order, the order is removed, so that a new order can follow. For example, an
    earlier ACME account can have placed the stored order.
    """
    order = store.find()
    if order is None or ca.status(order.url) != "absent":
        return order
    with _withdraw_after(store):
        store.forget()
    return None


def obtain(
    spec: OrderSpec,
    ca: OrderingCa,
    store: OrderStore,
    *,
    until: float,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Obtained:
    """Complete the stored order, or a new order. Return its certificate. Raises AttemptFailed.

    The attempt ends at the Unix second `until`. After a failure, the order stays stored for another attempt, unless
    the CA has ended it.
    """
    order, answered = store.find() or _begin(spec, ca, store), set[str]()
    with _withdraw_after(store):
        while (status := ca.status(order.url)) != "valid":
            if status == "pending":
                for challenge in _list_new(spec, ca, order, answered):
                    store.publish(challenge)
                    _answer(challenge, spec, ca, order)
            elif status == "ready":
                ca.finalize(order.url, x509.load_der_x509_csr(order.request))
            elif status in _ENDED:
                _end(spec, ca, store, order)
            if now() >= until:
                raise AttemptFailed(
                    outcomes.ca_unreachable(),
                    f"the CA did not complete the order in time: its status is still {status}",
                )
            sleep(_PAUSE)
        return Obtained(_parse_chain(ca.download(order.url), spec, order, now()), order)


def _begin(spec: OrderSpec, ca: OrderingCa, store: OrderStore) -> UnfinishedOrder:
    """Create a key and an order at the CA, and store the order."""
    id, sealed_key = store.make_key(spec.names, spec.key_type)
    store.admit()
    url = ca.order(spec.names, spec.replaces)
    order = UnfinishedOrder(url, spec.names[0], spec.method, id, sealed_key.request, sealed_key.key)
    store.put(order)
    return order


def _list_new(spec: OrderSpec, ca: OrderingCa, order: UnfinishedOrder, answered: set[str]) -> list[Challenge]:
    """Return the pending challenges with tokens that are not in `answered`. Add these tokens to `answered`."""
    challenges = [challenge for challenge in ca.challenges(order.url, spec.method) if challenge.token not in answered]
    answered.update(challenge.token for challenge in challenges)
    return challenges


def _answer(challenge: Challenge, spec: OrderSpec, ca: OrderingCa, order: UnfinishedOrder) -> None:
    """Notify the CA that it can check a challenge.

    An error is ignored if the challenge is not pending any more, for example because another issuer has answered it.
    """
    try:
        ca.answer(challenge)
    except AttemptFailed:
        if challenge.token in [pending.token for pending in ca.challenges(order.url, spec.method)]:
            raise


def _end(spec: OrderSpec, ca: OrderingCa, store: OrderStore, order: UnfinishedOrder) -> None:
    """Remove an order that the CA has ended. Raises AttemptFailed with the CA's reason."""
    store.drop()
    ca.challenges(order.url, spec.method)
    raise AttemptFailed(outcomes.internal(), "the CA ended the order and gave no reason")


@contextmanager
def _withdraw_after(store: OrderStore) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            store.withdraw()
        except AttemptFailed as failed:  # not raised, because the order's own result or error would be lost
            log.event("answer_left", reason=failed.reason)


def _parse_chain(pem: str, spec: OrderSpec, order: UnfinishedOrder, now: float) -> Chain:
    """Parse the certificate chain from the CA, and check that it matches the order. Raises AttemptFailed."""
    try:
        chain = crypto.chains.read(pem, _MAX_CHAIN)
    except ValueError as error:
        raise AttemptFailed(outcomes.internal(), f"the CA sent an invalid certificate chain: it {error}") from None
    leaf, request = chain.leaf, x509.load_der_x509_csr(order.request)
    checks = {
        "has another key than the order": leaf.public_key == request.public_key(),
        "has other names than the order": sorted(leaf.dns_names) == sorted(spec.names) and not leaf.ips,
        "is not valid now": leaf.not_before.timestamp() <= now < leaf.not_after.timestamp(),
    }
    if wrong := [problem for problem, is_right in checks.items() if not is_right]:
        raise AttemptFailed(outcomes.internal(), f"the CA sent a certificate that {wrong[0]}")
    return chain
