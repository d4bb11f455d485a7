"""Calls of the key service or the store that fail."""

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
    ids=lambda error: type(error).__name__,
)


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, service: str = "kms") -> Iterator[None]:
    """Raise an error at each call of a service. No secret is opened from memory."""
    call = aws.call

    def fail(called_service: str, *values: Any, **keywords: Any) -> Any:
        if called_service == service:
            raise error
        return call(called_service, *values, **keywords)

    with monkeypatch.context() as broken:
        broken.setattr(aws, "call", fail)
        broken.setattr("chalicelib.storage.vault._opened", {})
        yield
