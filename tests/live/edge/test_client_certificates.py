"""Mutual TLS of edges with real handshakes, TLS versions of edges, and where no private key may be."""

import base64
import json
import re
import socket
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.tls_termination import TlsTerminationModule
from chalicelib.model.edges.served import Modules, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from tests import openssl
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge
from tests.openssl import Issued

ACCOUNT = "acct_mutual"
AUTHORITY = ("basicConstraints=critical,CA:TRUE",)
VERSIONS = ("1.0", "1.1", "1.2", "1.3")
pytestmark = needs_envoy


@cache
def authority(name: str = "right") -> Issued:
    return openssl.issue(f"/CN={name}", extensions=AUTHORITY)


def client(kind: str = "p256", *, by: Issued | None = None) -> Issued:
    end = ("basicConstraints=critical,CA:FALSE",)
    return openssl.issue("/CN=client", kind, extensions=end, issuer=by or authority())


def issue_expired() -> Issued:
    """Return a client's certificate that has ended a day ago."""
    client_pair, now = client(), datetime.now(UTC)
    issuer = x509.load_pem_x509_certificate(authority().certificate.encode())
    certificate = x509.load_pem_x509_certificate(client_pair.certificate.encode())
    key = load_pem_private_key(authority().key.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    builder = x509.CertificateBuilder(
        issuer.subject, certificate.subject, certificate.public_key(), x509.random_serial_number()
    )
    dated = builder.not_valid_before(now - timedelta(9)).not_valid_after(now - timedelta(1))
    expired_certificate = dated.sign(key, hashes.SHA256())
    return Issued(expired_certificate.public_bytes(Encoding.PEM).decode(), client_pair.key)


def of_chain() -> Issued:
    """Return a client's certificate with that of an authority between."""
    between = openssl.issue("/CN=between", extensions=AUTHORITY, issuer=authority())
    leaf = client(by=between)
    return Issued(leaf.certificate + between.certificate, leaf.key)


def serve(edge: Edge, name: str, modules: Modules) -> str:
    """Serve an edge of a name; return its id."""
    answer = ServedBackend(ACCOUNT, ids.new("bkdhr"), HttpResponse(body="in"))
    route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", enabled(BackendModule(backend_id=answer.id)))
    served_edge = ServedEdge(
        ACCOUNT, ids.new("edghts"), 1, (f"{name}.tunnels.localhost:443",), "edge", modules, (route,)
    )
    edge.store.keep(answer)
    edge.store.keep(served_edge)
    edge.settle()
    return served_edge.id


def visit(edge: Edge, name: str, folder: Path, presented: Issued | None = None, version: str = "") -> str:
    """Return what a client reads, "" where there is no handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")  # else no TLS before 1.2
        only = list(ssl.TLSVersion)[2 + VERSIONS.index(version)]
        context.minimum_version = context.maximum_version = only
    if presented:
        (folder / "client.pem").write_text(presented.certificate + presented.key)
        context.load_cert_chain(folder / "client.pem")
    host = f"{name}.tunnels.localhost"
    try:
        with (
            socket.create_connection(("127.0.0.1", edge.settings.edge_port), 5) as raw,
            context.wrap_socket(raw, server_hostname=host) as secure,
        ):
            secure.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            return secure.recv(10_000).decode().rpartition("\r\n")[2]
    except OSError:
        return ""


def test_clients_with_a_certificate_of_the_authority_are_let_in(edge: Edge, tmp_path: Path) -> None:
    pem = ServedAuthority(ACCOUNT, ids.new("ca"), authority().certificate)
    edge.store.keep(pem)
    serve(edge, "mutual", enabled(mutual_tls=MutualTlsModule(certificate_authority_ids=[pem.id])))
    clients: dict[str, Issued | None] = {
        **{kind: client(kind) for kind in ("rsa-2048", "p256", "p384", "p521", "ed25519")},
        "a chain": of_chain(),
        "none": None,
        "a wrong authority": client(by=authority("wrong")),
        "expired": issue_expired(),
        "of itself": openssl.issue("/CN=client"),
    }
    replies = {name: visit(edge, "mutual", tmp_path, presented) for name, presented in clients.items()}
    refused_clients = ("none", "a wrong authority", "expired", "of itself")
    assert replies == {name: "" if name in refused_clients else "in" for name in clients}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("least", VERSIONS)
def test_a_version_of_tls_before_the_least_is_refused(edge: Edge, tmp_path: Path, least: str) -> None:
    name = f"least{least[-1]}"
    serve(edge, name, enabled(tls_termination=TlsTerminationModule(min_version=least)))
    assert [visit(edge, name, tmp_path, version=version) for version in VERSIONS] == [
        "in" if version >= least else "" for version in VERSIONS
    ]


def test_private_keys_are_in_no_file_page_of_envoys_admin_or_process_list(edge: Edge, tmp_path: Path) -> None:
    name, id = "kept.tunnels.localhost", ids.new("cert")
    serve(edge, "kept", enabled())
    edge.upload(id, ACCOUNT, name)
    edge.settle()
    assert visit(edge, "kept", tmp_path) == "in"
    pair = edge.store.pairs[id]
    admin = ["curl", "-sS", "--unix-socket", "admin.sock", "http://envoy/config_dump?include_eds"]
    dump = subprocess.run(admin, cwd=edge.settings.directory, capture_output=True, text=True, check=True).stdout
    assert name in dump
    files = [path for path in edge.settings.directory.rglob("*") if path.is_file() and path.name != "authority.pem"]
    contents = [path.read_text(errors="replace") for path in files]
    processes = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    key = "".join(pair.key.splitlines()[1:-1])
    lines = [line for line in pair.key.splitlines()[1:-1] if len(line) > 20]
    inlined = re.findall(r'"inline_bytes": "([^"]*)"', dump)
    decoded = [base64.b64decode(text).decode(errors="replace") for text in inlined]
    everywhere = [dump, *contents, processes, *decoded]
    assert not [text for text in everywhere for line in [key, *lines] if line in text or json.dumps(line)[1:-1] in text]
