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
from edge.issuer.ordering import Obtained, Wanted
from edge.issuer.rules import outcomes
from tests.edge.issuer.fake_ca import DOMAIN, Ca, Killed, World

NOW = datetime.now(UTC).timestamp()
WANTED = Wanted((DOMAIN,), "ecdsa", "http-01")


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


def obtain(world: World, wanted: Wanted = WANTED, now: Callable[[], float] = lambda: NOW) -> Obtained:
    return ordering.obtain(wanted, Ca(world), Store(world), until=NOW + 60, now=now, sleep=lambda _: None)


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
    own = x509.load_der_x509_csr(obtained.order.request)
    assert own.public_key() == obtained.chain.leaf.public_key


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
    with pytest.raises(AttemptFailed) as failed:
        obtain(world)
    assert failed.value.failure == outcomes.challenge_failed("Wrong answer")
    assert (world.stored, world.published) == (None, set())
    world.is_rejected = False
    obtain(world)
    assert len(world.orders) == 2


def test_a_certificate_of_other_names_is_not_used() -> None:
    with pytest.raises(AttemptFailed) as failed:
        obtain(World(names=(DOMAIN, "other.example.com")))
    assert (failed.value.failure.code, failed.value.reason) == ("internal", "the certificate of the CA has other names")


def test_a_certificate_that_is_not_valid_now_is_not_used() -> None:
    with pytest.raises(AttemptFailed) as failed:
        obtain(World(), now=lambda: NOW - 86400)
    assert failed.value.reason == "the certificate of the CA is not valid now"


def test_a_slow_order_is_left_for_another_attempt() -> None:
    world = World()
    with pytest.raises(AttemptFailed) as failed:
        obtain(world, now=lambda: NOW + 60)
    assert (failed.value.failure.code, world.stored is None) == ("ca_unreachable", False)
    obtain(world)
    assert len(world.orders) == 1


def test_an_rsa_key_has_2048_bits() -> None:
    key: Any = obtain(World(), Wanted((DOMAIN,), "rsa", "http-01")).chain.leaf.public_key
    assert key.key_size == 2048
