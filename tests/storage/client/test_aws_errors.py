"""Errors of AWS: the service is unavailable, or used wrongly."""

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ProfileNotFound,
    ReadTimeoutError,
)

from chalicelib.storage.client import aws
from chalicelib.storage.client.aws import AwsError, Misconfigured, Unavailable


def meant_by(error: Exception) -> Exception:
    with pytest.raises(Exception, match=r".") as exc_info, aws.translate_errors():
        raise error
    return exc_info.value


def make_error(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "what was sent"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutItem"
    )


@pytest.mark.parametrize(
    "code",
    [
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
        "InternalServerError",
        "KMSInternalException",
        "DependencyTimeoutException",
        "LimitExceededException",
    ],
)
def test_a_service_that_throttles_is_unavailable(code: str) -> None:
    error = meant_by(make_error(code))
    assert isinstance(error, Unavailable)
    assert (error.code, str(error)) == (code, code)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_service_that_fails_is_unavailable(status: int) -> None:
    assert isinstance(meant_by(make_error("Whatever", status)), Unavailable)


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://secret.example"),
        ConnectTimeoutError(endpoint_url="http://secret.example"),
        ReadTimeoutError(endpoint_url="http://secret.example"),
        IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ],
)
def test_a_service_out_of_reach_is_unavailable(error: Exception) -> None:
    meant = meant_by(error)
    assert isinstance(meant, Unavailable)
    assert str(meant) == type(error).__name__


@pytest.mark.parametrize(
    "error",
    [
        make_error("AccessDeniedException"),
        make_error("ResourceNotFoundException"),
        make_error("ExpiredTokenException"),
        make_error("UnrecognizedClientException"),
        make_error("NotFoundException"),
        NoCredentialsError(),
        NoRegionError(),
        ProfileNotFound(profile="what was sent"),
        ParamValidationError(report="what was sent"),
    ],
)
def test_a_service_that_is_used_wrongly_is_misconfigured(error: Exception) -> None:
    meant = meant_by(error)
    assert isinstance(meant, Misconfigured)
    assert "what was sent" not in str(meant)


def test_an_answer_to_the_question_passes() -> None:
    error = make_error("ConditionalCheckFailedException")
    assert meant_by(error) is error


def test_what_is_meant_does_not_carry_what_was_answered() -> None:
    meant = meant_by(make_error("ThrottlingException"))
    assert meant.__cause__ is None
    assert meant.__suppress_context__
    assert isinstance(meant, AwsError)
