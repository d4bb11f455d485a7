"""Acts between two requests to DynamoDB."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chalicelib.storage.client import aws

_TRANSACTION = "provide-client-params.dynamodb.TransactWriteItems"


@contextmanager
def before_transaction(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Do something right before the transaction of that number in this block."""
    numbers = [0]

    def count(**_: object) -> None:
        numbers[0] += 1
        if numbers[0] == number:
            act()

    events = aws.client("dynamodb").meta.events
    events.register(_TRANSACTION, count)
    try:
        yield
    finally:
        events.unregister(_TRANSACTION, count)
