"""What the tests of the API's ways share: apps that are thrown away, for what no endpoint of the real one does."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from chalice.app import Chalice

from chalicelib.http import middleware, registration
from chalicelib.http.endpoints import Call, Endpoint, Routes
from chalicelib.http.resource import Resource
from tests import conformity, gateway
from tests.samples import Collection
from tests.transports import Client, InProcess


@dataclass(frozen=True)
class OneRoute:
    """The route GET /path, answered by a view."""

    view: Callable[[Call], Any]

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint("GET", "/path", 200, self.view),)


Serve = Callable[[Client, Routes], Client]


@pytest.fixture
def own_log() -> Iterator[None]:
    """Undo what the test does to the log."""
    logger = logging.getLogger("tunnel_edge")
    handlers, level = logger.handlers, logger.level
    yield
    logger.handlers = handlers
    logger.setLevel(level)


@pytest.fixture
def serve(own_log: None) -> Serve:
    """Return a function that gives a client a transport to an app with these routes only."""

    def start(client: Client, routes: Routes) -> Client:
        app = Chalice(app_name="throw-away", configure_logs=False)
        middleware.wrap(app)
        registration.serve(app, [routes])
        return Client(InProcess(app), client.token, check=conformity.of_another_app)

    return start


@pytest.fixture
def collection(resource: Resource) -> Collection:
    """Return the collection of the kind under test, in a new account."""
    return Collection.of(gateway.admin(), resource)
