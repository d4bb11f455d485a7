"""Special names whose renewed certificate Envoy rejects: the replaced one stays, and the error is reported."""

import ssl

import pytest
from cryptography import x509

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.tls_termination import TlsTerminationModule
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from edge.link.authority import KeyPair
from tests import openssl
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.names import ACCOUNT, Name, serve
from tests.live.edge.running import Edge, build_certificate, until

pytestmark = needs_envoy


def special(edge: Edge, label: str, form: str) -> Name:
    """Serve a special name of a domain."""
    host = f"{label}.renewed.example"
    edge.store.reserve(ServedReservation(ACCOUNT, ids.new("rd"), host, is_proved=True))
    name = serve(edge, host)
    if form == "mutual":
        authority = ServedAuthority(ACCOUNT, ids.new("ca"), name.clients.pem)
        edge.store.keep(authority)
        name.change(enabled(mutual_tls=MutualTlsModule(certificate_authority_ids=[authority.id])))
    elif form == "version":
        name.change(enabled(tls_termination=TlsTerminationModule(min_version="1.3")))
    else:
        edge.store.forget(name.record)
        group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": form}))
        edge.store.keep(group)
        modules = enabled(backend=BackendModule(backend_id=group.id))
        edge.store.keep(ServedEdge(ACCOUNT, ids.new("edgtls"), 1, (f"{host}:443",), modules=modules))
    return name


def upload(edge: Edge, host: str, kind: str, days: int) -> tuple[str, int]:
    """Store a certificate that ends after some days. Return its id and its serial number."""
    id, renewed_pair = ids.new("cert"), openssl.issue("/CN=renewed", kind, extensions=(f"subjectAltName=DNS:{host}",))
    edge.store.upload(
        build_certificate(id, ACCOUNT, host, until=days), KeyPair(renewed_pair.certificate, renewed_pair.key)
    )
    return id, x509.load_pem_x509_certificate(renewed_pair.certificate.encode()).serial_number


def read_serial(name: Name) -> int:
    """Return the serial number of the certificate that a visitor gets, 0 without a handshake."""
    try:
        with name.connect(trusts_all=True) as connection:
            certificate = connection.getpeercert(binary_form=True)
            return x509.load_der_x509_certificate(certificate or b"").serial_number
    except (OSError, ssl.SSLError):
        return 0


@pytest.mark.parametrize("form", ["mutual", "version", "bytes"])
@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_renewed_certificate_that_envoy_rejects_leaves_the_replaced_one(
    edge: Edge, form: str, *, is_loaded: bool
) -> None:
    name = special(edge, f"{form}-{is_loaded}".lower(), form)
    _, good = upload(edge, name.host, "p256", 100)
    if is_loaded:
        until(lambda: read_serial(name) == good)
    weak, _ = upload(edge, name.host, "rsa-1024", 200)
    edge.settle()
    assert [read_serial(name) for _ in range(3)] == [good] * 3
    until(lambda: (ACCOUNT, weak) in edge.store.reports())
    edge.restart_control()
    until(lambda: read_serial(name) == good)
    _, better = upload(edge, name.host, "p256", 300)
    until(lambda: read_serial(name) == better)
