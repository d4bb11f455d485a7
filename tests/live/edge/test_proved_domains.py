"""Names that stay, on a whole edge beside `make run`: reserved ones, and domains that name servers prove."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import openssl, operator_commands
from tests.conftest import ROOT, Served, free_port, serve
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.nameservers import NameServer, serving
from tests.live.edge.processes import WITHOUT_SIGN_IN, Platform, credential, start_edge
from tests.live.edge.running import Key, Ssh, listens, until

pytestmark = needs_envoy
DOMAIN, TXT = "app.example.com", "_tunnel-verification.app.example.com"
SPELLINGS = ["kept", "KEPT", "kept.tunnels.localhost", "Kept.Tunnels.Localhost."]
TAKEN_SENTENCE = "kept.tunnels.localhost is in use already: choose another name."
LEASE = 5  # seconds
# Makes the check of each reserved domain due whose id it reads.
DUE_NOW = """
import sys
from chalicelib import clock
from chalicelib.operator import accounts
from chalicelib.model.base import kinds
from chalicelib.model.names import proof_checks
from chalicelib.model.names.proofs import Proof
from chalicelib.model.names.reservations import ReservedDomain, set_proof
from chalicelib.storage.records import items, table, writes
for id in map(str.strip, sys.stdin):
    for account in accounts.list_accounts():
        if before := table.read(items.scope(account.id, kinds.RESERVED_DOMAINS.path), id):
            proof = {**ReservedDomain.of(before.body).proof, "next_at": clock.seconds()}
            after = set_proof(before, Proof(**proof))
            writes.commit([*writes.rewrite(before, after), *proof_checks.reschedule(before, after)])
    print(id, flush=True)
"""


@dataclass
class World:
    """An edge beside `make run` that asks two name servers, whose records the test writes; and another account."""

    folder: Path
    settings: dict[str, str]
    servers: tuple[NameServer, NameServer]
    run: "subprocess.Popen[bytes]"
    platform: Platform
    stranger: Served
    account: str
    key: Key
    due: "subprocess.Popen[str] | None" = None

    @staticmethod
    def begin(folder: Path, servers: tuple[NameServer, NameServer]) -> "World":
        dns_servers = ",".join(f"{server.address}:{server.port}" for server in servers)
        ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT")}
        settings = {
            **ports,
            "LOCAL_DIR": str(folder),
            "LEASE": str(LEASE),
            "DNS_SERVERS": dns_servers,
            **WITHOUT_SIGN_IN,
        }
        run, api = serve(folder)
        output = operator_commands.run(api.cloud, "accounts", "create", "stranger")
        account, token = (re.findall(f"^{label} (.*)$", output, re.MULTILINE)[0] for label in ("account", "token"))
        stranger = replace(api, token=token)
        platform = Platform(api, ports, start_edge(api, settings), credential(api, "key"))
        return World(folder, settings, servers, run, platform, stranger, account, credential(stranger, "strange"))

    def end(self) -> None:
        if self.due:
            self.due.communicate(timeout=30)
            self.due = None
        for process in (self.platform.edge, self.run):
            process.send_signal(signal.SIGINT)
            process.wait(30)

    def restart(self) -> None:
        """End the edge and the API, and start them again with what they have kept."""
        self.end()
        self.run, api = serve(self.folder)
        self.stranger = replace(api, token=self.stranger.token)
        self.platform = replace(self.platform, api=api, edge=start_edge(api, self.settings))

    def operate(self, *words: str) -> None:
        self.platform.operator(*words)

    def opens(self, name: str) -> Ssh:
        """Return the owner's client, with a tunnel of the name."""
        client = self.platform.ssh("-R", f"{name}:80:localhost:1")
        client.wait_for("is online.")
        return client

    def list_refusals(self, name: str) -> list[str]:
        """Return what the other account is told, which asks for a name."""
        client = self.platform.ssh("-R", f"{name}:80:localhost:1", key=self.key)
        assert client.wait() == 1
        return client.lines

    def visit(self, host: str) -> str:
        """Return the certificate that a visitor of a host is shown, PEM; "" where the handshake is refused."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            raw = socket.create_connection(("127.0.0.1", int(self.platform.ports["EDGE_PORT"])), 5)
            with raw, context.wrap_socket(raw, server_hostname=host) as secure:
                return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True) or b"")
        except OSError:
            return ""

    def write(self, *values: str, to: int = 2) -> None:
        for server in self.servers[:to]:
            server.records[TXT, "TXT"] = list(values)

    def look(self, id: str) -> dict[str, Any]:
        """Have a reservation be looked at; return its proof then."""
        before = self.proof(id)
        self.make_due(id)
        until(lambda: self.proof(id)["checked_at"] != before["checked_at"])
        return self.proof(id)

    def make_due(self, id: str) -> None:
        """Make the check of a reservation due now, as if its time had come."""
        if self.due is None:
            command, environment = [sys.executable, "-c", DUE_NOW], {**os.environ, **self.platform.api.cloud}
            pipe = subprocess.PIPE
            self.due = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)
        assert self.due.stdin
        assert self.due.stdout
        print(id, file=self.due.stdin, flush=True)
        assert self.due.stdout.readline() == f"{id}\n"

    def proof(self, id: str) -> dict[str, Any]:
        proof: dict[str, Any] = self.platform.api.client().get(f"/reserved_domains/{id}").json["verification"]
        return proof

    def events(self, id: str) -> list[tuple[str, str]]:
        """Return what was done with a resource, and who did it, the first first."""
        audit_events = self.platform.api.client().get(f"/audit_events?resource_id={id}").json["audit_events"]
        return [(event["action"].rpartition(".")[2], event["actor"]["type"]) for event in audit_events][::-1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    servers = NameServer("127.0.0.1"), NameServer("127.0.0.2")
    with serving(*servers):
        world = World.begin(tmp_path_factory.mktemp("domains") / "local", servers)
        try:
            yield world
        finally:
            world.end()


def test_a_domain_is_proved_by_its_record_and_lapses_without_it(world: World) -> None:
    api = world.platform.api.client()
    reservation = api.create("/reserved_domains", {"domain": "App.Example.com."})
    id, verification = reservation["id"], reservation["verification"]
    assert (reservation["domain"], verification["name"], verification["status"]) == (DOMAIN, TXT, "pending")
    until(lambda: world.proof(id)["error"] == f"There is no TXT record {TXT}.")
    world.write(verification["value"], to=1)  # of two servers one lies
    assert world.look(id)["status"] == "pending"
    world.write("another value")
    assert (
        world.look(id)["error"]
        == f"The TXT record {TXT} does not have the value of this reservation: change the record."
    )
    assert world.events(id) == [("create", "api_key")]

    world.write("another value", verification["value"])
    assert api.post(f"/reserved_domains/{id}/verify", None).status == 202
    until(lambda: world.proof(id)["status"] == "verified")
    assert (world.proof(id)["error"], world.events(id)[1:]) == ("", [("update", "api_key"), ("verified", "edge")])
    assert api.post(f"/reserved_domains/{id}/verify", None).status == 429

    world.write()
    assert world.look(id)["status"] == "lapsing"
    assert world.events(id)[-1:] == [("lapsing", "edge")]
    world.write(verification["value"])
    assert world.look(id)["status"] == "verified"


def test_a_proved_domain_is_served_under_its_accounts_certificate(world: World) -> None:
    api = world.platform.api.client()
    (reservation,) = api.get("/reserved_domains").json["reserved_domains"]
    unproved = f"Your account has not proved that it owns {DOMAIN}: reserve it and set its TXT record first."
    assert world.list_refusals(DOMAIN) == [unproved]
    assert world.platform.ssh("-R", f"x.{DOMAIN}:80:localhost:1").wait() == 1
    client = world.opens(f"{DOMAIN.upper()}.")
    assert client.lines == [f"https://{DOMAIN}:{world.platform.ports['EDGE_PORT']} is online."]
    assert (world.visit(DOMAIN), bool(world.visit("nobody.tunnels.localhost"))) == ("", True)

    exact, wildcard = (
        openssl.issue("/CN=shop", "p256", extensions=(f"subjectAltName=DNS:{name}",))
        for name in (DOMAIN, "*.example.com")
    )
    uploads = [
        {"certificate_pem": certificate.certificate, "private_key_pem": certificate.key}
        for certificate in (exact, wildcard)
    ]
    _, second = [api.create("/tls_certificates", upload)["id"] for upload in uploads]
    until(lambda: world.visit(DOMAIN) == exact.certificate)
    api.patch(f"/reserved_domains/{reservation['id']}", {"certificate_id": second})
    until(lambda: world.visit(DOMAIN) == wildcard.certificate, within=2)
    assert api.delete(f"/reserved_domains/{reservation['id']}/certificate").status == 204
    until(lambda: world.visit(DOMAIN) == exact.certificate, within=2)
    assert (world.visit(f"x.{DOMAIN}"), world.visit("example.com")) == ("", "")

    plain = f"http://127.0.0.1:{world.platform.ports['HTTP_PORT']}/a"
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{redirect_url}", "-H", f"Host: {DOMAIN}", plain]
    redirected = subprocess.run(command, capture_output=True, text=True).stdout
    assert redirected == f"https://{DOMAIN}:{world.platform.ports['EDGE_PORT']}/a"
    client.kill()
    until(lambda: world.visit(DOMAIN) == "")


def test_another_account_has_the_domain_only_while_the_holders_record_is_gone(world: World) -> None:
    api = world.platform.api.client()
    (reservation,) = api.get("/reserved_domains").json["reserved_domains"]
    theirs = world.stranger.client().create("/reserved_domains", {"domain": DOMAIN})

    def check_proof(*values: str) -> tuple[str, str]:
        world.write(*values)
        before = read_proof()["checked_at"]
        world.make_due(theirs["id"])
        until(lambda: read_proof()["checked_at"] != before)
        return read_proof()["status"], world.proof(reservation["id"])["status"]

    def read_proof() -> dict[str, Any]:
        verification: dict[str, Any] = (
            world.stranger.client().get(f"/reserved_domains/{theirs['id']}").json["verification"]
        )
        return verification

    until(lambda: read_proof()["checked_at"] is not None)
    values = reservation["verification"]["value"], theirs["verification"]["value"]
    client = world.opens(DOMAIN)
    until(lambda: world.visit(DOMAIN) != "")
    assert check_proof(*values) == ("pending", "verified")
    assert check_proof(values[1]) == ("verified", "lapsed")
    until(lambda: world.visit(DOMAIN) == "", within=5)
    assert client.wait(within=5) == 1
    assert world.events(reservation["id"])[-1] == ("lapsed", "edge")
    other = world.platform.ssh("-R", f"{DOMAIN}:80:localhost:1", key=world.key)
    other.wait_for("is online.")
    other.kill()


def test_a_reserved_name_is_its_accounts_online_or_not(world: World) -> None:
    api = world.platform.api.client()
    api.create("/reserved_domains", {"domain": "kept.tunnels.localhost"})
    refusals = [world.list_refusals(name) for name in SPELLINGS]  # while its owner is offline
    client = world.opens("kept")
    refusals.append(world.list_refusals("kept"))
    client.kill()
    until(lambda: world.platform.tunnels("kept") == [])
    refusals.append(world.list_refusals("kept"))
    assert world.stranger.client().post("/reserved_domains", {"domain": "x.kept.tunnels.localhost"}).status == 409
    assert refusals == [[TAKEN_SENTENCE]] * (len(SPELLINGS) + 2)
    assert client.lines == [f"https://kept.tunnels.localhost:{world.platform.ports['EDGE_PORT']} is online."]


def test_a_reserved_name_stays_when_its_lease_ends_and_after_a_restart_of_everything(world: World) -> None:
    client = world.opens("kept")
    os.kill(world.platform.child("gateway"), signal.SIGKILL)
    client.wait()
    until(lambda: world.platform.tunnels("kept") == [], within=LEASE + 10)
    until(lambda: listens(int(world.platform.ports["SSH_PORT"])), within=30)
    assert world.list_refusals("kept") == [TAKEN_SENTENCE]
    world.restart()
    assert [world.list_refusals(name) for name in SPELLINGS] == [[TAKEN_SENTENCE]] * len(SPELLINGS)
    world.opens("kept").kill()


def test_a_name_that_nobody_reserved_is_free_again_and_that_is_said(world: World) -> None:
    client = world.opens("loose")
    client.wait_for('To reserve it: POST /reserved_domains {"domain": "loose.tunnels.localhost"}')
    client.kill()
    until(lambda: world.platform.tunnels("loose") == [])
    other = world.platform.ssh("-R", "loose:80:localhost:1", key=world.key)
    other.wait_for("is online.")
    other.kill()


def test_an_edge_wins_over_a_tunnel_and_keeps_the_name_from_others(world: World) -> None:
    client = world.opens("page")
    edge = world.platform.api.client().create("/edges/https", {"hostports": ["page.tunnels.localhost:443"]})
    assert client.wait(within=5) == 1
    again = world.platform.ssh("-R", "page:80:localhost:1")
    assert again.wait() == 1
    listens = "An edge of your account listens on page.tunnels.localhost"
    assert again.lines == [f"{listens}: choose another name, or remove it from the edge."]
    assert world.list_refusals("page") == ["page.tunnels.localhost is in use already: choose another name."]
    world.platform.api.client().delete(f"/edges/https/{edge['id']}")


def test_an_account_may_be_limited_to_its_reserved_names(world: World) -> None:
    world.stranger.client().create("/reserved_domains", {"domain": "theirs.tunnels.localhost"})
    command = ["accounts", "limits", world.account]
    open_before = world.platform.ssh("-R", "free:80:localhost:1", key=world.key)
    open_before.wait_for("is online.")
    world.operate(*command, "--only-reserved")
    assert open_before.wait(within=5) == 1
    assert open_before.lines[-1].endswith("its credential or right to the name was revoked.")
    assert world.list_refusals("free") == [
        "Your account can use only reserved names, and free.tunnels.localhost is not reserved: reserve it first."
    ]
    client = world.platform.ssh("-R", "theirs:80:localhost:1", key=world.key)
    client.wait_for("is online.")
    client.kill()
    world.operate(*command, "--no-only-reserved")


def _blocks(title: str) -> list[str]:
    """Return the blocks of shell commands in a section of the page."""
    section = (ROOT / "docs" / "edge.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def _paste(world: World, block: str, folder: Path, **variables: str) -> dict[str, Any]:
    """Return the answer that a block of the page shows in a shell with the variables of the blocks before it."""
    api = world.platform.api
    settings = {
        "PATH": os.environ["PATH"],
        "BASE_URL": api.base_url,
        "API_KEY": api.token,
        "no_proxy": "*",
        **variables,
    }
    result = subprocess.run(["sh", "-eu", "-c", block], cwd=folder, env=settings, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_the_pages_commands_keep_a_name_and_prove_a_domain(world: World, tmp_path: Path) -> None:
    (name,), (claim, verify) = _blocks("Reserve a name"), _blocks("A domain of your own")
    assert _paste(world, name, tmp_path)["domain"] == "team.tunnels.localhost"
    assert world.list_refusals("team") == ["team.tunnels.localhost is in use already: choose another name."]
    reservation = _paste(world, claim, tmp_path)
    until(lambda: world.proof(reservation["id"])["checked_at"] is not None)
    for server in world.servers:
        server.records[reservation["verification"]["name"], "TXT"] = [reservation["verification"]["value"]]
    assert _paste(world, verify, tmp_path, CLAIM=json.dumps(reservation))["id"] == reservation["id"]
    assert list(tmp_path.iterdir()) == []
    until(lambda: world.proof(reservation["id"])["status"] == "verified")
