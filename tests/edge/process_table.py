"""A table with a key in the memory of a process that is not a test, for example of a benchmark."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from moto import mock_aws

from chalicelib.storage import provisioning
from tests import aws_in_memory
from tests.edge.edge_table import DOMAIN

_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
_NAMES = {"TUNNEL_DOMAIN": DOMAIN, "TCP_PORTS": "20000-29999"}


@contextmanager
def serving() -> Iterator[None]:
    """Make the table (moto), before anything makes a client of AWS."""
    os.environ.pop("AWS_ENDPOINT_URL", None)
    os.environ.update(_KEYS | _NAMES)
    aws_in_memory.install()
    with mock_aws(config={"core": {"mock_credentials": False}}):
        provisioning.create_table()
        provisioning.create_key()
        yield
