"""A whole edge beside `make run` with a CA: pebble behind a proxy with faults, and a name server that takes updates."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from chalicelib.model.names import operator_certificate
from chalicelib.model.tls import challenge_records
from chalicelib.storage import vault
from tests import pebble
from tests.conftest import ROOT, client_of, free_port, remember_stored, serve
from tests.live.edge import nameservers
from tests.live.edge.acme import faulty_ca, zones
from tests.live.edge.acme.faulty_ca import FaultyCa
from tests.live.edge.acme.zones import UpdatedZone
from tests.live.edge.nameservers import NameServer
from tests.live.edge.processes import WITHOUT_SIGN_IN, Platform, credential, start_edge
from tests.live.edge.running import until
from tests.transports import RECORD, Client

POLICY = {"authority": "letsencrypt", "private_key_type": "ecdsa"}
ZONE = "acme.example.net"  # of the targets of aliases


@dataclass
class Issuing:
    """The running parts. `settings` are those of the issuer."""

    platform: Platform
    ca: FaultyCa
    names: NameServer
    zone: UpdatedZone
    settings: dict[str, str]
    log: Path  # of issuers
    app: str = ""  # the id of the domain that has visitors
    issuer: "subprocess.Popen[str] | None" = None
    other_issuers: "list[subprocess.Popen[str]]" = field(default_factory=list)

    @cached_property
    def api(self) -> Client:
        return self.platform.api.client()

    def newcomer(self) -> "Issuing":
        """Return the same for another account."""
        return replace(self, platform=replace(self.platform, api=self.platform.api.newcomer()))

    def reserve(self, domain: str) -> str:
        """Reserve a domain that leads to the edge, and publish its proof. Return its id."""
        reservation = self.api.create("/reserved_domains", {"domain": domain})
        self.names.records[domain, "A"] = ["127.0.0.1"]
        self.names.records[reservation["verification"]["name"], "TXT"] = [reservation["verification"]["value"]]
        return str(reservation["id"])

    def prove(self, *ids: str) -> None:
        """Wait until domains are proved."""
        until(lambda: all(self.show(id)["verification"]["status"] == "verified" for id in ids))

    def order(self, *ids: str, **policy: str) -> None:
        """Give domains a policy."""
        for id in ids:
            answer = self.api.patch(f"/reserved_domains/{id}", {"certificate_management_policy": {**POLICY, **policy}})
            assert answer.status == 200, answer.json

    def find(self, domain: str) -> str:
        """Return the id of a reserved domain."""
        (reservation,) = [
            reservation
            for reservation in self.api.get("/reserved_domains").json["reserved_domains"]
            if reservation["domain"] == domain
        ]
        return str(reservation["id"])

    def show(self, id: str) -> dict[str, Any]:
        """Return a reserved domain as the API shows it."""
        reservation: dict[str, Any] = self.api.get(f"/reserved_domains/{id}").json
        return reservation

    def job(self, id: str) -> dict[str, Any]:
        """Return the provisioning job of a domain, empty if there is none."""
        status = self.show(id)["certificate_management_status"]
        return (status or {})["provisioning_job"] or {}

    def alias(self, id: str) -> None:
        """Publish the alias of a domain with a policy."""
        reservation = self.show(id)
        name = f"_acme-challenge.{reservation['domain'].removeprefix('*.')}"
        self.names.records[name, "CNAME"] = [reservation["acme_challenge_cname_target"]]

    def have(self, *ids: str) -> bool:
        """Return whether domains have certificates."""
        return all(self.show(id)["certificate"] for id in ids)

    def certificate(self, id: str) -> dict[str, Any]:
        """Return the issued certificate of a domain as the API shows it, empty without one."""
        reference = self.show(id)["certificate"]
        return dict(self.api.get(f"/tls_certificates/{reference['id']}").json) if reference else {}

    def read_certificate(self, id: str) -> x509.Certificate:
        """Return the issued certificate of a domain."""
        return x509.load_pem_x509_certificate(self.certificate(id)["certificate_pem"].encode())

    def operator_certificate(self) -> x509.Certificate | None:
        """Return the operator's certificate in the table, or None."""
        key = {"scope": {"S": operator_certificate.SCOPE}, "id": {"S": operator_certificate.ID}}
        item = client_of(self.platform.api.cloud, "dynamodb").get_item(TableName="tunnel-edge", Key=key).get("Item")
        if not item:
            return None
        return x509.load_pem_x509_certificate(item["body"]["M"]["certificate_pem"]["S"].encode())

    def events(self, id: str) -> list[dict[str, Any]]:
        """Return the audit events of a resource."""
        events: list[dict[str, Any]] = self.api.get(f"/audit_events?resource_id={id}").json["audit_events"]
        return events

    def connection(self, domain: str, address: str = "127.0.0.1") -> HTTPSConnection:
        """Return a connection of a visitor, who trusts every certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = _LocalConnection(domain, int(self.platform.ports["EDGE_PORT"]), context=context, timeout=5)
        connection.address = address
        return connection

    def visit(self, domain: str, address: str = "127.0.0.1") -> x509.Certificate | None:
        """Return the certificate that a visitor of a domain gets, or None without a handshake."""
        connection = self.connection(domain, address)
        try:
            connection.connect()
            return x509.load_der_x509_certificate(connection.sock.getpeercert(binary_form=True) or b"")
        except OSError:
            return None
        finally:
            connection.close()

    def tokens(self) -> list[str]:
        """Return the domains with the answer of a challenge in the table."""
        pages = client_of(self.platform.api.cloud, "dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
        scopes = [item["scope"]["S"] for page in pages for item in page["Items"]]
        return [scope for scope in scopes if scope.startswith(challenge_records.PREFIX)]

    def keys(self, *ids: str) -> dict[str, bytes]:
        """Return private keys as DER, by the ids of their records."""
        pages = client_of(self.platform.api.cloud, "dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
        items = [item for page in pages for item in page["Items"] if item["id"]["S"] in ids and "sealed" in item]
        kms = client_of(self.platform.api.cloud, "kms")
        keys = {}
        for item in items:
            account, id = item["scope"]["S"].partition("#")[0], item["id"]["S"]
            sealed = item["sealed"]["M"]["private_key"]["B"]
            keys[id] = kms.decrypt(CiphertextBlob=sealed, EncryptionContext=vault.context(account, id))["Plaintext"]
        return keys

    @contextmanager
    def another_host(self, address: str) -> Iterator[None]:
        """Run another edge host at an address, with the same ports and store."""
        folder = self.log.parent / "another"
        host_variables = {"EDGE_HOST": address, "EDGE_DIR": str(folder), "SSH_PORT": str(free_port())}
        shared = {**self.platform.ports, "LOCAL_DIR": str(self.platform.api.local), "DNS_SERVERS": self.name_server}
        edge = start_edge(self.platform.api, {**shared, **host_variables, **WITHOUT_SIGN_IN})
        try:
            yield
        finally:
            _end(edge)

    @property
    def name_server(self) -> str:
        """Return the name server that edge hosts ask."""
        return self.settings["DNS_SERVERS"]

    def restart_edge(self) -> None:
        """Start the edge again, with the settings of an issuer."""
        _end(self.platform.edge)
        local = {"LOCAL_DIR": str(self.platform.api.local)}
        settings = {**self.settings, **self.platform.ports, **WITHOUT_SIGN_IN, **local}
        settings.pop("EDGE_DIR")
        self.platform.edge = start_edge(self.platform.api, settings)

    def start_issuer(self, **options: Any) -> "subprocess.Popen[str]":
        """Start an issuer of the tests. It ends with the world, or when the next one starts."""
        self.end_issuer()
        self.issuer = self._start(options)
        return self.issuer

    def add_issuer(self) -> None:
        """Start an issuer beside the first. It ends with the world."""
        self.other_issuers.append(self._start({"keys": "process"}))

    def _start(self, options: dict[str, Any]) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.live.edge.acme.issuer", json.dumps(options)]
        environment, pipe = {**os.environ, **self.platform.api.cloud, **self.settings}, subprocess.PIPE
        with self.log.open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=log, text=True)

    def set_ahead(self, seconds: int) -> None:
        """Set the clock of the issuer so many seconds ahead."""
        assert self.issuer
        assert self.issuer.stdin
        print(seconds, file=self.issuer.stdin, flush=True)

    def end_issuer(self) -> None:
        """End all issuers of the tests."""
        for issuer in [*self.other_issuers, *([self.issuer] if self.issuer else [])]:
            issuer.kill()
            issuer.communicate()
        self.issuer = None
        self.other_issuers.clear()


class _LocalConnection(HTTPSConnection):
    """A connection to an address of this machine, whatever the name of the host."""

    address = "127.0.0.1"

    def connect(self) -> None:
        raw = socket.create_connection((self.address, self.port), self.timeout)
        self.sock = self._context.wrap_socket(raw, server_hostname=self.host)  # type: ignore[attr-defined]


@contextmanager
def running(folder: Path) -> Iterator[Issuing]:
    """Run everything but an issuer."""
    with ExitStack() as stack:
        names = NameServer("127.0.0.1", records={(ZONE, "NS"): [f"ns.{ZONE}"]}, zone="example.com")
        name_server = f"127.0.0.1:{stack.enter_context(nameservers.serving(names))}"
        ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT")}
        behind = pebble.run_pebble(folder / "pebble", http_port=int(ports["HTTP_PORT"]), name_server=name_server)
        ca = stack.enter_context(faulty_ca.serving(stack.enter_context(behind)))
        zone = stack.enter_context(zones.updated(ZONE, names))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ACME_DNS_ZONE", ZONE)
            names.records["_acme-challenge.tunnels.localhost", "CNAME"] = [operator_certificate.alias_target()]
        settings = {
            "ACME_DIRECTORY": ca.directory,
            "ACME_TERMS_AGREED": "true",
            "ACME_CA_BUNDLE": str(ca.pebble.bundle),
            "ACME_HTTP_PORT": ports["HTTP_PORT"],
            "ACME_DNS_ZONE": ZONE,
            "ACME_DNS_SERVER": f"127.0.0.1:{zone.port}",
            "ACME_DNS_KEY": zone.key,
            "ACME_OPERATOR": "true",
            "DNS_SERVERS": name_server,
            "EDGE_DIR": str(folder / "issuer"),
        }
        shared = {name: settings[name] for name in ("ACME_DIRECTORY", "ACME_DNS_ZONE")}
        run, api = serve(folder / "local", **shared)
        stack.callback(_end, run)
        edge_settings = {"LOCAL_DIR": str(folder / "local"), "DNS_SERVERS": name_server, **WITHOUT_SIGN_IN}
        edge = start_edge(api, {**ports, **edge_settings})
        platform = Platform(api, ports, edge, credential(api, "key"))
        stack.callback(lambda: _end(platform.edge))
        issuing = Issuing(platform, ca, names, zone, settings, folder / "issuer.log")
        stack.callback(issuing.end_issuer)
        RECORD.log_files.append(issuing.log)
        yield issuing
        remember_stored(api)


def _end(process: "subprocess.Popen[Any]") -> None:
    process.send_signal(signal.SIGINT)
    process.wait(30)
