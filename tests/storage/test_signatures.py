"""Requests to DynamoDB are signed as botocore signs them, to the byte."""

from datetime import UTC, datetime

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import NoCredentialsError

from chalicelib.storage.signatures import Signer

HEADERS = {
    "X-Amz-Target": "DynamoDB_20120810.GetItem",
    "Content-Type": "application/x-amz-json-1.0",
    "User-Agent": "whoever",
    "X-Spaces": "  a   b ",
}
NOW = datetime(2026, 11, 22, 1, 2, 3, tzinfo=UTC)


def signed(signer: type[auth.SigV4Auth], url: str, token: str | None, body: bytes, **more: str) -> dict[str, str]:
    request = AWSRequest("POST", url, {**HEADERS, **more}, body)
    signer(ReadOnlyCredentials("AKID", "secret", token), "dynamodb", "eu-west-1").add_auth(request)
    return dict(request.headers.items())


@pytest.mark.parametrize("token", [None, "a token"])
@pytest.mark.parametrize("body", [b"{}", '{"S": "ä"}'.encode()])
@pytest.mark.parametrize("more", [{}, {"X-Amzn-Trace-Id": "Root=1"}, {"Authorization": "an earlier try's"}])
@pytest.mark.parametrize(
    "url",
    [
        "https://dynamodb.eu-west-1.amazonaws.com/",
        "https://dynamodb.eu-west-1.amazonaws.com:443/",
        "http://127.0.0.1:4566/",
        "http://[::1]:80/",
        "http://[::1]:4566/",
        "https://host/a//b/../c d~ä",
    ],
)
def test_a_signature_is_that_of_botocore(
    monkeypatch: pytest.MonkeyPatch, url: str, more: dict[str, str], body: bytes, token: str | None
) -> None:
    monkeypatch.setattr(auth, "get_current_datetime", lambda: NOW.replace(tzinfo=None))
    monkeypatch.setattr("time.gmtime", lambda: NOW.timetuple())
    assert signed(Signer, url, token, body, **more) == signed(auth.SigV4Auth, url, token, body, **more)


def test_nothing_is_signed_without_credentials() -> None:
    with pytest.raises(NoCredentialsError):
        Signer(None, "dynamodb", "eu-west-1").add_auth(AWSRequest("POST", "https://host/", HEADERS, b"{}"))
