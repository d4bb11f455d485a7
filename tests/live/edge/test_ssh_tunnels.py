"""What a client may open with `ssh -R`, what it may not, and what it is told."""

import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from chalicelib.model.tunnels.tunnels import AgentTunnel
from edge.ssh import forwarding
from tests.conftest import free_port, least
from tests.edge import served_records
from tests.edge.edge_table import fail
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, listens, running, until


def test_each_address_is_shown_in_the_terminal(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", "one:80:localhost:1", "-R", "two:80:localhost:1")

    client.wait_for(f"{edge.url('one', '')} is online.")
    client.wait_for(f"{edge.url('two', '')} is online.")


def test_a_tunnel_without_a_name_is_given_one(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", "80:localhost:1")

    client.wait_for("is online.")
    ((tunnel, record),) = edge.store.tunnels()
    assert isinstance(record, AgentTunnel)
    assert client.lines == [f"{record.public_url} is online."]
    assert tunnel.name.endswith(".tunnels.localhost")
    assert len(tunnel.name.partition(".")[0]) == 10


def test_labels_open_a_backend_tunnel(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", "Region=EU,app=web:80:localhost:1")

    client.wait_for("is online with Region=EU, app=web")
    ((tunnel, _),) = edge.store.tunnels()
    assert (tunnel.name, tunnel.labels) == ("", {"Region": "EU", "app": "web"})


@pytest.mark.parametrize(
    ("forward", "sentence"),
    [
        ("demo:22", "Port 22 is not served here: request a port from "),
        ("demo:0", "A TCP port belongs to the whole domain and has no name: write -R 0:…."),
        ("app=web:443", "A tunnel with labels must request port 80, whatever its protocol."),
        ("a_b:80", "a_b is not a tunnel name"),
        (
            "example.com:80",
            "Your account has not proved that it owns example.com: reserve it and set its TXT record first.",
        ),
        ("admin:80", "The name admin is reserved for the operator: choose another."),
        ("xn--80ak6aa92e:80", "is reserved"),
        ("=x:80", "is not a label"),
        ("a=*:80", "is not a label"),
        (
            ",".join(f"k{number}=v" for number in range(51)) + ":80",
            "A tunnel can have at most 50 labels, not 51.",
        ),
        (f"a={'x' * 256}:80", "The name and the value of a label can each have at most 255 bytes."),
    ],
)
def test_what_there_is_not_is_refused_with_a_sentence(edge: Edge, forward: str, sentence: str) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", f"{forward}:localhost:1")

    assert client.wait() == 1
    assert any(sentence in line for line in client.lines), client.lines


@pytest.mark.parametrize(
    ("acl", "forward", "permitted"),
    [
        ((), "any:80", True),
        (("bind:mine.tunnels.localhost",), "MINE.tunnels.localhost:80", True),
        (("bind:mine.tunnels.localhost",), "other:80", False),
        (("bind:mine.tunnels.localhost",), "80", False),
        (("bind:*.tunnels.localhost",), "any:80", True),
        (("bind:*.tunnels.localhost",), "80", True),
        (("bind:region=*",), "region=eu:80", True),
        (("bind:region=*",), "Region=eu:80", False),
        (("bind:region=*",), "region=eu,app=web:80", False),
    ],
)
def test_a_credential_binds_what_its_rules_permit(
    edge: Edge, acl: tuple[str, ...], forward: str, permitted: bool
) -> None:
    client = edge.ssh(edge.key("acct_A", *acl), "-R", f"{forward}:localhost:1")

    client.wait_for("is online" if permitted else "The ACL of sshcr_")
    if not permitted:
        assert client.wait() == 1
        assert edge.store.online == {}


def test_there_is_no_sftp(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", "sftp:80:localhost:1", "-s", terminal="-T", command=["sftp"])

    assert client.wait() != 0


def test_nothing_can_be_reached_from_the_gateway(edge: Edge, origin: int) -> None:
    client = edge.ssh(edge.key("acct_A"), "-W", f"127.0.0.1:{origin}", terminal="-T")

    assert client.wait() != 0
    assert client.lines == ["stdio forwarding failed"]


@pytest.mark.needs("curl")
def test_local_and_dynamic_forwardings_lead_nowhere(edge: Edge, origin: int) -> None:
    local, dynamic = free_port(), free_port()
    forwards = ["-L", f"{local}:127.0.0.1:{origin}", "-D", f"{dynamic}", "-R", "forwards:80:localhost:1"]
    edge.ssh(edge.key("acct_A"), *forwards).wait_for("is online")

    for proxy, port in ([], local), (["--socks5", f"127.0.0.1:{dynamic}"], origin):
        result = subprocess.run(
            ["curl", "-s", "--noproxy", "", *proxy, f"http://127.0.0.1:{port}/"], capture_output=True, timeout=10
        )
        assert (result.returncode != 0, result.stdout) == (True, b"")


def test_a_command_is_not_run(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", "command:80:localhost:1", command=["id"])

    assert client.wait() != 0
    assert not [line for line in client.lines if "uid=" in line]


def test_without_a_tunnel_the_terminal_says_how_to_open_one_and_ends(edge: Edge) -> None:
    client = edge.ssh(edge.key("acct_A"))

    assert client.wait() == 1
    assert client.lines == ["There is no shell here. To open a tunnel: ssh -R name:80:localhost:3000 …"]


def test_control_c_ends_the_client_and_its_tunnels(edge: Edge) -> None:
    def measure_removal() -> float:
        client = edge.ssh(edge.key("acct_A"), "-R", "short:80:localhost:1", stdin=subprocess.PIPE)
        client.wait_for("is online")
        start = time.monotonic()
        client.write("\x03")
        assert client.wait() == 0
        until(lambda: edge.store.online == {})
        return time.monotonic() - start

    assert least(measure_removal, bound=1) < 1


def test_a_name_of_another_credential_is_taken_until_it_ends(edge: Edge) -> None:
    first = edge.ssh(edge.key("acct_A"), "-R", "once:80:localhost:1")
    first.wait_for("is online")
    for account in ("acct_A", "acct_B"):
        other = edge.ssh(edge.key(account), "-R", "once:80:localhost:1")
        assert other.wait() == 1
        assert other.lines == ["once.tunnels.localhost is in use already: choose another name."]

    first.kill()
    until(lambda: edge.store.online == {})
    edge.ssh(edge.key("acct_B"), "-R", "once:80:localhost:1").wait_for("is online")


def test_a_credential_takes_its_own_name_over_at_once(edge: Edge) -> None:
    key = edge.key("acct_A")
    edge.ssh(key, "-R", "again:80:localhost:1").wait_for("is online")

    edge.ssh(key, "-R", "again:80:localhost:1").wait_for("is online")


def test_a_banned_pattern_ends_its_tunnels_within_five_seconds_and_refuses_others(edge: Edge) -> None:
    key = edge.key("acct_A")
    banned_client, other = (edge.ssh(key, "-R", f"{name}:80:localhost:1") for name in ("mybank", "demo"))
    for client in (banned_client, other):
        client.wait_for("is online")
    edge.store.ban("*bank*")
    assert banned_client.wait(within=5) == 1
    assert banned_client.lines[-1] == f"{edge.url('mybank').rstrip('/')} has ended: the operator has banned its name."
    second_client = edge.ssh(key, "-R", "bank2:80:localhost:1")
    assert second_client.wait() == 1
    assert second_client.lines == ["The operator has banned bank2.tunnels.localhost: choose another name."]
    assert not other.is_over
    edge.store.ban()


def test_a_name_that_the_operator_has_banned_is_refused(edge: Edge) -> None:
    edge.store.ban("bad.tunnels.localhost")

    client = edge.ssh(edge.key("acct_A"), "-R", "bad:80:localhost:1")

    assert client.wait() == 1
    assert client.lines == ["The operator has banned bad.tunnels.localhost: choose another name."]


def test_a_name_that_is_not_reserved_is_said_once_to_be_free_again(edge: Edge) -> None:
    edge.store.reserve_name("acct_A", "mine.tunnels.localhost")
    key = edge.key("acct_A")
    client = edge.ssh(key, *(part for name in ("mine", "loose", "other") for part in ("-R", f"{name}:80:localhost:1")))

    client.wait_for(f"{edge.url('other', '')} is online.")

    assert client.lines == [
        f"{edge.url('mine', '')} is online.",
        f"{edge.url('loose', '')} is online.",
        "loose.tunnels.localhost is not reserved: others can use it when this client disconnects. "
        'To reserve it: POST /reserved_domains {"domain": "loose.tunnels.localhost"}',
        f"{edge.url('other', '')} is online.",
    ]


@pytest.mark.parametrize("name", ["kept", "KEPT", "kept.tunnels.localhost", "Kept.Tunnels.localhost."])
def test_a_reserved_name_is_refused_to_other_accounts_in_any_spelling(edge: Edge, name: str) -> None:
    edge.store.reserve_name("acct_A", "kept.tunnels.localhost")
    client = edge.ssh(edge.key("acct_B"), "-R", f"{name}:80:localhost:1")

    assert client.wait() == 1
    assert client.lines == ["kept.tunnels.localhost is in use already: choose another name."]
    edge.ssh(edge.key("acct_A"), "-R", f"{name}:80:localhost:1").wait_for(f"{edge.url('kept', '')} is online.")


def test_an_account_may_be_limited_to_the_names_that_it_has_reserved(edge: Edge) -> None:
    edge.store.reserve_name("acct_L", "only.tunnels.localhost")
    served_records.put_account("acct_L", only_reserved=True)
    key = edge.key("acct_L")
    for forward in ("free:80", "80"):
        client = edge.ssh(key, "-R", f"{forward}:localhost:1")
        assert client.wait() == 1
        assert re.fullmatch(
            r"Your account can use only reserved names, and \S+ is not reserved: reserve it first\.", client.lines[0]
        )
    edge.ssh(key, "-R", "only:80:localhost:1").wait_for(f"{edge.url('only', '')} is online.")


def _take_names(edge: Edge, count: int) -> set[str]:
    """Reserve the next random names for another account just before their tunnels are stored. Return these names."""
    names: set[str] = set()

    def take(operation: str, body: str) -> None:
        match = re.search(r"[a-z0-9]{10}\.tunnels\.localhost", body)
        if operation == "TransactWriteItems" and match and len(names) < count and match[0] not in names:
            names.add(match[0])
            other = threading.Thread(target=edge.store.reserve_name, args=("acct_B", match[0]))
            other.start()
            other.join()

    edge.store.before = take
    return names


@pytest.mark.parametrize(("count", "sentence"), [(2, "is online."), (3, "is in use already: choose another name.")])
def test_a_name_of_chance_that_is_somebody_s_is_drawn_again(edge: Edge, count: int, sentence: str) -> None:
    names = _take_names(edge, count)
    client = edge.ssh(edge.key("acct_A"), "-R", "80:localhost:1")
    client.wait_for(sentence)
    assert len(client.lines) == 1
    assert len(names) == count


def test_a_connection_has_ten_tunnels_at_most(edge: Edge) -> None:
    forwards = [part for number in range(11) for part in ("-R", f"ten{number}:80:localhost:1")]

    client = edge.ssh(edge.key("acct_A"), *forwards)

    client.wait_for("One connection has at most 10 tunnels: open another connection.")
    client.wait_for("ten9")
    assert len(edge.store.tunnels()) == 10


def test_an_account_and_a_gateway_have_as_many_tunnels_as_they_may(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, max_tunnels_per_account=1, max_tunnels_per_gateway=2) as edge:
        edge.ssh(edge.key("acct_A"), "-R", "a:80:localhost:1").wait_for("is online")
        edge.ssh(edge.key("acct_A"), "-R", "b:80:localhost:1").wait_for("The limit of tunnels is reached")
        edge.ssh(edge.key("acct_B"), "-R", "b:80:localhost:1").wait_for("is online")
        edge.ssh(edge.key("acct_C"), "-R", "c:80:localhost:1").wait_for("The limit of tunnels is reached")


def test_a_deleted_credential_loses_its_tunnels_by_the_sweep(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, rights_sweep=1) as edge:
        client = edge.ssh(edge.key("acct_A"), "-R", "gone:80:localhost:1")
        client.wait_for("is online")

        edge.store.revoke()

        assert client.wait(within=4) == 1
        assert client.lines[-1].endswith("has ended: its credential or right to the name was revoked.")
        until(lambda: edge.store.online == {})


def test_a_gateway_that_cannot_read_the_store_ends_all_tunnels_and_comes_back_with_a_new_id(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, lease=2) as edge:
        key, first = edge.key("acct_A"), edge.gateway.id
        client = edge.ssh(key, "-R", "lost:80:localhost:1")
        client.wait_for("is online")
        edge.store.is_away = True
        start = time.monotonic()

        client.wait_for("has ended: its gateway has lost its lease.")
        client.wait_for("This gateway has lost its lease: connect again in ")
        client.wait(within=5)
        assert 0.5 < time.monotonic() - start < 4

        edge.store.is_away = False
        until(lambda: edge.gateway.id != first and edge.gateway.id in edge.store.up and listens(edge.settings.ssh_port))
        edge.ssh(key, "-R", "lost:80:localhost:1").wait_for("is online")
        assert {tunnel.gateway for tunnel, _ in edge.store.tunnels()} == {edge.gateway.id}


def _fail_checks(operation: str, body: str) -> None:
    if operation == "BatchGetItem" and "last.tunnels.localhost" in body:
        fail()


def test_what_cannot_be_checked_ends_and_harms_no_other(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, lease=2, rights_sweep=1) as edge:
        unaffected = edge.ssh(edge.key("acct_A"), "-R", "kept:80:localhost:1")
        unaffected.wait_for("is online")
        last = edge.ssh(edge.key("acct_B"), "-R", "last:80:localhost:1")
        last.wait_for("is online")
        edge.store.before = _fail_checks

        last.wait_for("has ended: its rights could not be checked.")
        assert last.wait(within=10) == 1

        assert not unaffected.is_over
        assert len(edge.gateway.tunnels) == 1


def test_a_tunnel_outlives_a_short_absence_of_the_store(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, lease=4) as edge:
        client = edge.ssh(edge.key("acct_A"), "-R", "kept:80:localhost:1")
        client.wait_for("is online")
        edge.store.is_away = True
        time.sleep(1.5)
        back_at = time.time()
        edge.store.is_away = False
        until(lambda: edge.store.up[edge.gateway.id].lease > back_at + 3)

        assert client.lines[1:] == [forwarding.advise_reservation("kept.tunnels.localhost")]
        assert len(edge.store.online) == 1


@needs_envoy
def test_requests_are_shown_with_their_answers_unless_there_is_no_terminal(edge: Edge, origin: int) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", f"shown:80:127.0.0.1:{origin}", "-R", "silent:80:127.0.0.1:1")
    quiet = edge.ssh(edge.key("acct_A"), "-R", f"quiet:80:127.0.0.1:{origin}", terminal="-T")
    for name in ("shown", "quiet"):
        until(lambda name=name: edge.status(name) == "200")  # type: ignore[misc]
        edge.curl(name, path="/looked?secret=1")
        edge.curl(name, "-X", "PUT", path="/changed")
    until(lambda: edge.status("silent") == "502")

    for request, answer in (("GET /looked", "200"), ("PUT /changed", "501")):
        client.wait_for(f"127.0.0.1  {request}  {answer}  ")
        line = next(line for line in client.lines if request in line)
        assert re.fullmatch(rf"127\.0\.0\.1  {request}  {answer}  \d{{1,4}} ms", line)
    client.wait_for("127.0.0.1  GET /  no answer")
    assert not [line for line in [*client.lines, *quiet.lines] if "secret" in line]
    assert quiet.lines == [
        f"{edge.url('quiet', '')} is online.",
        forwarding.advise_reservation("quiet.tunnels.localhost"),
    ]


@needs_envoy
def test_the_store_is_told_which_client_opens_a_tunnel_and_at_its_end_what_went_through(
    edge: Edge, origin: int
) -> None:
    client = edge.ssh(edge.key("acct_A"), "-R", f"counted:80:127.0.0.1:{origin}")
    client.wait_for("is online")
    ((tunnel, record),) = edge.store.tunnels()
    assert (record.address, record.client[:8]) == ("127.0.0.1", "SSH-2.0-")
    until(lambda: edge.status("counted") == "200")
    for _ in range(3):
        edge.curl("counted", "-d", "a" * 10_000)  # all of it is read before the answer
    client.kill()
    until(lambda: bool(edge.store.events("acct_A", tunnel.id, "tunnel.delete")))
    (used,) = edge.store.events("acct_A", tunnel.id, "tunnel.delete")
    assert used["requests"] == "4"
    assert 30_000 < int(used["bytes_in"]) < 40_000
    assert 0 < int(used["bytes_out"]) < 10_000


@needs_envoy
def test_clients_that_are_dropped_leave_nothing_behind(edge: Edge) -> None:
    clients = [
        edge.ssh(edge.key("acct_D"), "-R", f"drop{number}:80:localhost:1", terminal="-T") for number in range(20)
    ]
    for number, client in enumerate(clients):
        time.sleep(0.02 * (number % 5))
        client.kill()

    until(lambda: edge.store.online == {} and len(edge.gateway.tunnels) == 0 and len(edge.gateway.sign_ins) == 0)
