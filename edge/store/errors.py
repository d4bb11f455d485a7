"""Converts errors of `chalicelib.storage` to the errors of `edge.store.records`."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from chalicelib.storage.client import aws, call_counts
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord
from edge.process import log
from edge.store.records import Throttled, Unavailable, Undecodable

P = ParamSpec("P")
R = TypeVar("R")


def raises_unavailable(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of the store, so that it raises Unavailable, Throttled or Undecodable."""

    @wraps(call)
    def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return call(*arguments, **named)
        except aws.AwsError as error:
            is_throttled = error.code in call_counts.THROTTLE_CODES
            raise (Throttled if is_throttled else Unavailable)(error.code) from None
        except MalformedRecord as malformed:
            log.event(decoding.EVENT, **malformed.facts)
            raise Undecodable(decoding.EVENT) from None

    return wrapped
