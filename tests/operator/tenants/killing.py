"""Ends an operation at random calls of the store, as a killed process would, until it is complete."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

from chalicelib.storage.client import aws

T = TypeVar("T")
TIMES = 10
_is_operation: ContextVar[bool] = ContextVar("is_operation", default=False)  # also in the threads of the operation


class Killed(BaseException):
    """The process was killed."""


def complete(operation: Callable[[], T], *, seed: int, limit: int = 40) -> T:
    """Run an operation until it completes; end the first runs at a random call. Return its result."""
    choose = random.Random(seed)
    for _ in range(TIMES):
        with _killed_at(choose.randint(1, limit)), suppress(Killed):
            operation()
    return operation()


@contextmanager
def _killed_at(number: int) -> Iterator[None]:
    """Raise Killed from the given call on, before or after it reaches the store."""
    numbers = [0]

    def count(**_: object) -> None:
        numbers[0] += _is_operation.get()
        if _is_operation.get() and numbers[0] >= number:
            raise Killed

    clients = [aws.client(service) for service in ("dynamodb", "kms")]
    event = "before-call" if number % 2 else "after-call"
    for client in clients:
        client.meta.events.register(event, count)
    token = _is_operation.set(True)
    try:
        yield
    finally:
        _is_operation.reset(token)
        for client in clients:
            client.meta.events.unregister(event, count)
