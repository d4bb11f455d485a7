"""Converts errors of the storage to errors of the edge's store."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from chalicelib.storage.client import aws
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord
from edge.process import log
from edge.store.records import Unavailable, Undecodable

P = ParamSpec("P")
R = TypeVar("R")


def raises_unavailable(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that reads the store: it raises Unavailable or Undecodable instead of storage errors."""

    @wraps(call)
    def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return call(*arguments, **named)
        except aws.AwsError as error:
            raise Unavailable(error.code) from None
        except MalformedRecord as malformed:
            log.event(decoding.EVENT, **malformed.facts)
            raise Undecodable(decoding.EVENT) from None

    return wrapped
