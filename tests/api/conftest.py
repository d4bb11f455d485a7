"""What the tests of the API's ways share: apps that are thrown away, for what no endpoint of the real one does."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from chalice.app import Chalice

from chalicelib.http import endpoints, middleware
from chalicelib.http.endpoints import Call, Endpoint, Routes
from chalicelib.http.resource import Resource
from tests import conformity, gateway
from tests.doors import Client, InProcess
from tests.samples import Collection


@dataclass(frozen=True)
class Path:
    """An endpoint at /path that does what it is given."""

    view: Callable[[Call], Any]

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint("GET", "/path", 200, self.view),)


Serve = Callable[[Client, Routes], Client]


@pytest.fixture
def own_log() -> Iterator[None]:
    """What the test does to the log is undone."""
    logger = logging.getLogger("tunnel_edge")
    handlers, level = logger.handlers, logger.level
    yield
    logger.handlers = handlers
    logger.setLevel(level)


@pytest.fixture
def serve(own_log: None) -> Serve:
    """Gives a client a door to an app that offers only this."""

    def start(client: Client, offer: Routes) -> Client:
        app = Chalice(app_name="throw-away", configure_logs=False)
        middleware.wrap(app)
        endpoints.serve(app, [offer])
        return Client(InProcess(app), client.token, check=conformity.of_another_app)

    return start


@pytest.fixture
def mine(resource: Resource) -> Collection:
    """The resources of the kind that the test is about, in an account that has nothing else."""
    return Collection.of(gateway.admin(), resource)
