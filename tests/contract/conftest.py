"""The transports of the suite: it runs through each, or, where it is set, at CONTRACT_URL alone, with CONTRACT_KEY."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import pytest

from chalicelib import ids
from chalicelib.http import auth
from chalicelib.operator import accounts
from tests.conftest import Served
from tests.contract import deployments, differences
from tests.contract.cases import Case
from tests.contract.wire import Tidy, Wire
from tests.transports import Answer, Client, InProcess

EMULATED = "/_user_request_"  # in the address of every API behind an emulated gateway


@dataclass(frozen=True)
class Entrance:
    """A transport: its name in the table of differences, and how to come in as the admin of one account or another."""

    name: str
    admin: Callable[[], Client]
    stranger: Callable[[], Client]


def _in_process(request: pytest.FixtureRequest) -> Entrance:
    def admin() -> Client:
        return Client(InProcess()).with_token(accounts.create_account(ids.new("contract"), "admin")[2])

    return Entrance("in_process", admin, admin)


def _local_server(request: pytest.FixtureRequest) -> Entrance:
    return _open_served("local_server", request.getfixturevalue("served"))


def _open_deployed(request: pytest.FixtureRequest) -> Entrance:
    return _open_served("emulated_gateway", request.getfixturevalue("deployed_api"))


def _open_served(name: str, api: Served) -> Entrance:
    @cache
    def stranger_token() -> str:
        return api.newcomer().token

    return Entrance(
        name, lambda: _over_http(api.base_url, api.token), lambda: _over_http(api.base_url, stranger_token())
    )


def _open_given(request: pytest.FixtureRequest) -> Entrance:
    url, token = os.environ["CONTRACT_URL"].rstrip("/"), os.environ["CONTRACT_KEY"]
    deployment = deployments.ask(url, token)

    def admin() -> Client:
        version = {deployment.version_header: auth.VERSIONS[0]}
        return Client(Wire(url, deployment.base_url), headers=version).with_token(token)

    def stranger() -> Client:
        pytest.skip("CONTRACT_KEY is the key of one account: two need the operator's entrance")

    return Entrance("emulated_gateway" if EMULATED in url else "gateway", admin, stranger)


def _over_http(base_url: str, token: str) -> Client:
    return Client(Wire(base_url, base_url)).with_token(token)


TRANSPORTS = {"in_process": _in_process, "local_server": _local_server, "deployed": _open_deployed}
if "CONTRACT_URL" in os.environ:
    TRANSPORTS = {"given": _open_given}


@pytest.fixture(scope="session", params=TRANSPORTS)
def entrance(request: pytest.FixtureRequest) -> Entrance:
    return TRANSPORTS[request.param](request)


@pytest.fixture
def client(entrance: Entrance) -> Iterator[Client]:
    """Yield a client for the admin of an account, which may hold more than what the test makes."""
    yield from _tidy_up(entrance.admin())


@pytest.fixture
def stranger(entrance: Entrance) -> Iterator[Client]:
    """Yield a client for the admin of another account."""
    yield from _tidy_up(entrance.stranger())


def _tidy_up(client: Client) -> Iterator[Client]:
    tidy = Tidy(client.transport)
    yield replace(client, transport=tidy)
    tidy.unmake()


@pytest.fixture
def check(entrance: Entrance) -> Callable[[Case, Answer], None]:
    """Hold the answer to a case against what the transport is to answer."""
    return lambda case, answer: differences.expected_answer(entrance.name, case).check(answer)
