"""Calls of the key service that fail."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from chalicelib.storage.client import aws

each_error = pytest.mark.parametrize(
    "error",
    [
        aws.Unavailable("store"),
        aws.Misconfigured("AccessDeniedException"),
        ClientError({"Error": {"Code": "InvalidCiphertextException", "Message": ""}}, "Decrypt"),
    ],
    ids=lambda it: type(it).__name__,
)


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Iterator[None]:
    """Raise an error at each call of the key service. No secret is opened from memory."""
    call = aws.call

    def fail(service: str, *values: Any, **named: Any) -> Any:
        if service == "kms":
            raise error
        return call(service, *values, **named)

    with monkeypatch.context() as broken:
        broken.setattr(aws, "call", fail)
        broken.setattr("chalicelib.storage.vault._opened", {})
        yield
