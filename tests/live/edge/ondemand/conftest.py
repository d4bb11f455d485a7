"""A name of an edge for each test."""

import pytest

from chalicelib import ids
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.served import Modules, ServedAuthority
from tests.edge.edge_modules import enabled
from tests.live.edge.ondemand.names import ACCOUNT, Name, serve
from tests.live.edge.running import Edge, until


@pytest.fixture
def name(edge: Edge) -> Name:
    served_name = serve(edge)
    until(lambda: served_name.visit() == "200")
    return served_name


@pytest.fixture
def mutual(name: Name) -> Modules:
    authority = ServedAuthority(ACCOUNT, ids.new("ca"), name.clients.pem)
    name.edge.store.keep(authority)
    return enabled(mutual_tls=MutualTlsModule(certificate_authority_ids=[authority.id]))
