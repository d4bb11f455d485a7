"""Orders at a CA of the test: killed at each step and continued, rejected, and of a wrong certificate."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509

from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.tls.certificate_policies import PolicyKeyType
from edge.issuer import key_making, ordering
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.key_making import KeyWish, SealedKey
from edge.issuer.ordering import Obtained, OrderSpec
from edge.issuer.rules import outcomes
from tests.edge.issuer.fake_ca import DOMAIN, Ca, Killed, World

NOW = datetime.now(UTC).timestamp()
SPEC = OrderSpec((DOMAIN,), "ecdsa", "http-01")


class Store:
    """The store as an issuer sees it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def find(self) -> UnfinishedOrder | None:
        self._world.step("find")
        return self._world.stored

    def put(self, order: UnfinishedOrder) -> None:
        self._world.step("put")
        self._world.stored = order

    def drop(self) -> None:
        self._world.step("drop")
        self.forget()

    def forget(self) -> None:
        self._world.stored = None

    def admit(self) -> None:
        self._world.step("admit")

    def make_key(self, names: tuple[str, ...], key_type: PolicyKeyType) -> tuple[str, SealedKey]:
        self._world.step("make_key")
        return "cert_1", key_making.make(KeyWish("acct_1", "cert_1", names, key_type))

    def publish(self, challenge: Challenge) -> None:
        self._world.step("publish")
        self._world.published.add(challenge.value)

    def withdraw(self) -> None:
        self._world.published.clear()


def obtain(world: World, spec: OrderSpec = SPEC, now: Callable[[], float] = lambda: NOW) -> Obtained:
    return ordering.obtain(spec, Ca(world), Store(world), until=NOW + 60, now=now, sleep=lambda _: None)


STEPS = [
    "find",
    "make_key",
    "admit",
    "order",
    "put",
    "status",
    "challenges",
    "publish",
    "answer",
    "status",
    "finalize",
    "status",
]
STEPS = [*STEPS, "download"]


def test_an_order_goes_from_step_to_step() -> None:
    world = World()
    obtained = obtain(world)
    assert (world.calls, obtained.chain.leaf.dns_names, obtained.order) == (STEPS, [DOMAIN], world.stored)
    assert world.published == set()
    public_request = x509.load_der_x509_csr(obtained.order.request)
    assert public_request.public_key() == obtained.chain.leaf.public_key


@pytest.mark.parametrize("killed_at", range(1, len(STEPS) + 1))
def test_an_order_that_was_stored_is_continued_after_a_kill(killed_at: int) -> None:
    world = World(killed_at)
    with pytest.raises(Killed):
        obtain(world)
    obtained = obtain(world)
    orders_before_the_store = 2 if STEPS[killed_at - 1] == "put" else 1
    assert (len(world.orders), world.published) == (orders_before_the_store, set())
    assert obtained.chain.leaf.public_key == x509.load_der_x509_csr(obtained.order.request).public_key()


def test_a_rejected_challenge_ends_the_order_with_the_words_of_the_ca() -> None:
    world = World(is_rejected=True)
    with pytest.raises(AttemptFailed) as error:
        obtain(world)
    assert error.value.failure == outcomes.challenge_failed("Wrong answer")
    assert (world.stored, world.published) == (None, set())
    world.is_rejected = False
    obtain(world)
    assert len(world.orders) == 2


def test_a_certificate_of_other_names_is_not_used() -> None:
    with pytest.raises(AttemptFailed) as error:
        obtain(World(names=(DOMAIN, "other.example.com")))
    assert (error.value.failure.code, error.value.reason) == (
        "internal",
        "the CA sent a certificate that has other names than the order",
    )


def test_a_certificate_that_is_not_valid_now_is_not_used() -> None:
    with pytest.raises(AttemptFailed) as error:
        obtain(World(), now=lambda: NOW - 86400)
    assert error.value.reason == "the CA sent a certificate that is not valid now"


def test_a_slow_order_is_left_for_another_attempt() -> None:
    world = World()
    with pytest.raises(AttemptFailed) as error:
        obtain(world, now=lambda: NOW + 60)
    assert (error.value.failure.code, world.stored is None) == ("ca_unreachable", False)
    obtain(world)
    assert len(world.orders) == 1


def test_an_rsa_key_has_2048_bits() -> None:
    key: Any = obtain(World(), OrderSpec((DOMAIN,), "rsa", "http-01")).chain.leaf.public_key
    assert key.key_size == 2048


class SlowCa(Ca):
    """A CA that checks an answer for a while. If `is_late`, it has already checked the answer of a killed issuer."""

    def __init__(self, world: World, *, is_late: bool) -> None:
        super().__init__(world)
        self._is_late, self._remaining_reads = is_late, 3  # reads of the status until it is ready

    def status(self, order: str) -> str:
        self._remaining_reads -= 1
        if self._remaining_reads == 0:
            self._world.orders[order] = "ready"
        return super().status(order)

    def challenges(self, order: str, method: str) -> list[Challenge]:
        return super().challenges(order, method) if self._world.orders[order] != "ready" else []

    def answer(self, challenge: Challenge) -> None:
        self._world.step("answer")
        if self._is_late:
            self._world.orders[[*self._world.orders][-1]] = "ready"
        if self._is_late or self._world.calls.count("answer") > 1:
            raise AttemptFailed(outcomes.internal(), "Cannot update challenge with status valid")


@pytest.mark.parametrize("is_late", [True, False])
def test_a_challenge_is_answered_once_although_the_ca_is_slow(*, is_late: bool) -> None:
    world = World()
    ordering.obtain(
        SPEC,
        SlowCa(world, is_late=is_late),
        Store(world),
        until=NOW + 60,
        now=lambda: NOW,
        sleep=lambda _: None,
    )
    assert world.calls.count("answer") == 1
    assert world.orders == {"https://ca.example/0": "valid"}


def test_an_answer_that_the_ca_does_not_take_fails_the_attempt() -> None:
    class DeafCa(Ca):
        def answer(self, challenge: Challenge) -> None:
            raise AttemptFailed(outcomes.ca_unreachable(), "no answer")

    world = World()
    with pytest.raises(AttemptFailed) as error:
        ordering.obtain(SPEC, DeafCa(world), Store(world), until=NOW + 60, now=lambda: NOW, sleep=lambda _: None)
    assert error.value.failure.code == "ca_unreachable"
