"""`python -m edge` beside `make run`: real processes on the records of the API, killed one by one and together."""

import contextlib
import json
import os
import resource
import shlex
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from cryptography import x509

from chalicelib.model.tunnels.tunnels import Traffic
from tests import openssl
from tests.cloud.pages import blocks
from tests.conftest import ROOT, free_port
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.processes import PYTHON, Platform, credential, run_edge, start_edge
from tests.live.edge.running import Ssh, free_ports, listens, ssh_command, until, upstream

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, providers: FakeProviders) -> Iterator[Platform]:
    """Run an API, an edge beside it, and a credential."""
    folder = tmp_path_factory.mktemp("local") / ("deep" * 30)  # no socket can have so long a name
    folder.mkdir()
    endpoints = tmp_path_factory.mktemp("providers") / "endpoints.json"
    endpoints.write_text(json.dumps(providers.endpoints()))
    with run_edge(folder, LEASE="60", OAUTH_ENDPOINTS=str(endpoints)) as platform:
        yield platform


def test_an_address_is_served_by_the_records_of_the_api_and_listed_there(platform: Platform) -> None:
    with upstream() as port:
        client = platform.ssh("-R", f"demo:80:127.0.0.1:{port}")
        client.wait_for("is online")
        until(lambda: platform.status("demo") == "200", within=10)
        (tunnel,) = platform.tunnels("demo")
        assert (tunnel["public_url"], tunnel["proto"]) == (
            f"https://demo.tunnels.localhost:{platform.ports['EDGE_PORT']}",
            "https",
        )
        client.kill()
        until(lambda: platform.status("demo") == "404" and platform.tunnels("demo") == [], within=5)


def test_the_host_key_that_it_prints_is_the_one_that_ssh_accepts_without_a_question(
    platform: Platform, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "known_hosts"
    (fingerprint,) = [line for line in platform.welcome if line.startswith("SHA256:")]
    (entry,) = [line for line in platform.welcome if line.startswith(f"[127.0.0.1]:{platform.ports['SSH_PORT']} ssh-")]
    known_hosts.write_text(f"{entry}\n")
    for file in (known_hosts, platform.api.local / "edge" / "ssh_host_ed25519_key.pub"):
        output = subprocess.run(["ssh-keygen", "-lf", file], check=True, capture_output=True, text=True).stdout
        assert output.split()[1] == fingerprint

    command = ssh_command(
        int(platform.ports["SSH_PORT"]), platform.key, "-tt", "-R", "known:80:localhost:1", "127.0.0.1"
    )
    replaced = {"UserKnownHostsFile=/dev/null": f"UserKnownHostsFile={known_hosts}"}
    strict = {"StrictHostKeyChecking=no": "StrictHostKeyChecking=yes", **replaced}
    client = Ssh([strict.get(argument, argument) for argument in command])
    client.wait_for("is online")
    client.kill()


@contextlib.contextmanager
def visiting(*visits: Callable[[], str]) -> Iterator[list[Counter[str]]]:
    """Repeat visits, each in a thread. Yield how often each has had which status."""
    counters, is_over = [Counter[str]() for _ in visits], threading.Event()

    def repeat(visit: Callable[[], str], statuses: Counter[str]) -> None:
        while not is_over.wait(0.02):
            statuses[visit()] += 1

    with ThreadPoolExecutor(len(visits)) as pool:
        running = [pool.submit(repeat, *pair) for pair in zip(visits, counters, strict=True)]
        try:
            yield counters
        finally:
            is_over.set()
    for task in running:
        task.result()


def create_page(platform: Platform, name: str, **application: str) -> None:
    """Create a page behind OAuth."""
    api = platform.api.client()
    backend = api.create("/backends/http_response", {"body": "welcome"})["id"]
    path = f"/edges/https/{api.create('/edges/https', {'hostports': [f'{name}.tunnels.localhost:443']})['id']}/routes"
    route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": backend}}
    api.create(path, {**route, "oauth": {"provider": {"google": application}}})


def sign_in(platform: Platform, name: str, jar: Path) -> tuple[str, str]:
    """Sign in at a page. Return the cookies with the session id and with the session token."""
    until(lambda: platform.status(name, "/", *NAVIGATES, "-L", "-b", str(jar), "-c", str(jar)) == "200")
    pairs = [line.split()[-2:] for line in jar.read_text().splitlines() if "service." in line]
    (id,), (token,) = ([f"{key}={value}" for key, value in pairs if part in key] for part in ("id.", "session."))
    return id, token


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process."""
    return time.clock_gettime(~process << 3 | 2)  # Linux's id of this clock


@contextlib.contextmanager
def sign_in_host(platform: Platform, folder: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the sign-in service of another host, which serves edge hosts at a port."""
    variables = {"EDGE_DIR": str(folder), "SIGN_IN_PORT": str(port)}
    environment = {**os.environ, **platform.api.cloud, "EDGE_PORT": platform.ports["EDGE_PORT"], **variables}
    process = subprocess.Popen([PYTHON, "-m", "edge", "sign-in"], cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def sign_in_ports() -> tuple[int, int]:
    """Return the ports of the sign-in services that the other edge host uses."""
    return free_port(), free_port()


@pytest.fixture(scope="module")
def start_edge_host(
    platform: Platform, sign_in_ports: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Platform]]:
    """Yield a function that returns another edge host, which it starts unless the host runs."""
    ports = {name: str(free_port()) for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT")}
    folder, hosts = tmp_path_factory.mktemp("other") / "edge", list[Platform]()
    sign_in_hosts = ",".join(f"127.0.0.1:{port}" for port in sign_in_ports)
    settings = {"LOCAL_DIR": str(platform.api.local), "EDGE_DIR": str(folder), "SIGN_IN_HOSTS": sign_in_hosts}

    def start() -> Platform:
        if not hosts or hosts[-1].edge.poll() is not None:
            edge = start_edge(platform.api, {**ports, **settings})
            hosts.append(replace(platform, ports={**platform.ports, **ports}, edge=edge, directory=folder))
        return hosts[-1]

    try:
        yield start
    finally:
        for host in hosts:
            host.edge.send_signal(signal.SIGINT)
            host.edge.wait(20)


APPLICATION = {"client_id": "app", "client_secret": "very secret"}
NAVIGATES = ("-H", "sec-fetch-mode: navigate")
MAX_START_CPU = 2  # seconds of CPU until the sign-in service is back: less than five seconds, also on a busy machine


def test_sessions_continue_while_the_sign_in_service_is_killed(platform: Platform, tmp_path: Path) -> None:
    create_page(platform, "signed-in", **APPLICATION)
    _, token = sign_in(platform, "signed-in", tmp_path / "jar")
    until(lambda: platform.visit("signed-in", token) == "200")  # without a session id: Envoy has the key
    visits = partial(platform.visit, "signed-in", token), partial(platform.visit, "signed-in")
    with visiting(*visits, *visits) as (users, strangers, *_):
        until(lambda: min(users.total(), strangers.total()) > 20)
        assert strangers.keys() == {"401"}
        os.kill(platform.child("edge sign-in"), signal.SIGKILL)
        until(lambda: strangers["503"] > 0)
        count_before = strangers["401"]
        until(lambda: strangers["401"] > count_before, within=30)
        assert cpu_of(platform.child("edge sign-in")) < MAX_START_CPU
        until(lambda: platform.status("signed-in", "/", *NAVIGATES) == "302")
    assert [{*statuses} for statuses in (users, strangers)] == [{"200"}, {"401", "503"}]


def test_a_session_passes_at_another_edge_host_while_keys_are_replaced_and_sign_in_hosts_are_killed(
    platform: Platform,
    providers: FakeProviders,
    sign_in_ports: tuple[int, int],
    start_edge_host: Callable[[], Platform],
    tmp_path: Path,
) -> None:
    create_page(platform, "both", **APPLICATION)
    id, token = sign_in(platform, "both", tmp_path / "jar")
    sign_ins = providers.calls.count("google/token")
    first, second = sign_in_ports
    with contextlib.ExitStack() as stack:
        first_host, second_host = (
            stack.enter_context(sign_in_host(platform, tmp_path / str(port), port)) for port in (first, second)
        )
        other_edge_host = start_edge_host()
        until(lambda: other_edge_host.visit("both", id) == "200")
        with visiting(
            *(partial(edge_host.visit, "both", f"{id}; {token}") for edge_host in (platform, other_edge_host))
        ) as visits:
            platform.operator("edge", "rotate-sign-in-keys", "--now")
            until(
                lambda: [edge_host.visit("both", token) for edge_host in (platform, other_edge_host)] == ["401", "401"]
            )  # by the new keys
            until(lambda: min(map(Counter.total, visits)) > 20)
        assert [{*statuses} for statuses in visits] == [{"200"}, {"200"}]
        assert providers.calls.count("google/token") == sign_ins
        until(lambda: all(listens(port) for port in (first, second)))
        with visiting(*[partial(other_edge_host.visit, "both")] * 4) as counters:
            first_host.kill()
            until(lambda: all(counter.total() > 20 for counter in counters))
        assert sum(counters, start=Counter[str]())["401"] > 70  # a request that the killed host has received gets a 503
        assert [other_edge_host.visit("both") for _ in range(8)] == ["401"] * 8
        second_host.kill()
        until(lambda: other_edge_host.visit("both") == "503")
        new_sign_in_host = stack.enter_context(sign_in_host(platform, tmp_path / str(first), first))
        until(lambda: other_edge_host.visit("both") == "401", within=30)
        assert cpu_of(new_sign_in_host.pid) < MAX_START_CPU


def test_an_edge_host_that_ends_leaves_its_results_and_another_one_tries_edges(
    platform: Platform, start_edge_host: Callable[[], Platform]
) -> None:
    client = platform.api.client()
    answer = client.create("/backends/http_response", {})["id"]
    fields = {"hostports": ["ends.tunnels.localhost:443"]}
    path = f"/edges/https/{client.create('/edges/https', fields)['id']}"
    client.create(f"{path}/routes", {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": answer}})

    def count_hosts() -> tuple[int, str]:
        status = client.get(f"{path}/status").json
        return status["hosts"], status["state"]

    def change(description: str) -> None:
        client.patch(path, {"description": description})
        until(lambda: count_hosts() == (1, "live"), within=10)

    until(lambda: count_hosts() == (1, "live"))
    other = start_edge_host().edge
    change("tried by one of two hosts")
    other.terminate()
    other.wait(20)

    assert count_hosts() == (1, "live")  # also the result of a host that ended is valid
    change("tried by the other host")
    client.delete(path)


def test_a_managed_application_opens_its_routes_within_eight_seconds(
    platform: Platform, providers: FakeProviders, tmp_path: Path
) -> None:
    create_page(platform, "managed")
    until(lambda: platform.visit("managed") == "503")
    calls, cookies = len(providers.calls), ("-b", str(tmp_path / "jar"), "-c", str(tmp_path / "jar"))
    platform.operator("oauth-apps", "set", "google", "--client-id", "app", stdin="very secret\n")
    until(lambda: platform.status("managed", "/", *NAVIGATES, *cookies, "-L") == "200", within=8)  # the service's page
    assert len(providers.calls) == calls


def test_the_access_log_is_opened_anew_on_sighup(platform: Platform) -> None:
    log = platform.api.local / "edge" / "access.log"
    with upstream() as port:
        client = platform.ssh("-R", f"rotated:80:127.0.0.1:{port}")
        client.wait_for("is online")
        until(lambda: platform.status("rotated") == "200", within=10)
        log.rename(log.with_name("access.log.1"))
        platform.edge.send_signal(signal.SIGHUP)

        until(lambda: platform.visit("rotated") == "200" and log.exists(), within=15)
        client.kill()


def test_what_was_counted_outlives_a_kill_of_the_gateway(platform: Platform) -> None:
    size, visits = 200_000, 10
    account = json.loads(platform.operator("accounts", "list", "--json").splitlines()[0])["id"]

    def read_traffic() -> Traffic:
        days = [json.loads(line) for line in platform.operator("usage", account, "--json").splitlines()]
        return sum((Traffic(day["bytes_in"], day["bytes_out"], day["requests"]) for day in days), start=Traffic())

    with upstream() as port:
        client = platform.ssh("-R", f"billed:80:127.0.0.1:{port}")
        client.wait_for("is online")
        until(lambda: platform.status("billed") == "200", within=10)
        for _ in range(visits):
            assert platform.status("billed", f"/bytes/{size}") == "200"
        time.sleep(1)
        os.kill(platform.child("edge gateway"), signal.SIGKILL)
        assert client.wait(within=10) == 255

        until(lambda: read_traffic().bytes_out >= size * visits, within=90)  # a busy machine starts the gateway slowly
        traffic = read_traffic()
        assert traffic.bytes_out <= size * visits * 1.01
        assert visits < traffic.requests < visits + 20  # of the tests before, too


def test_the_pages_edge_in_ten_lines_shifts_a_weight_under_a_loop_of_requests(
    platform: Platform, tmp_path: Path
) -> None:
    (api, *_), edge = blocks("docs/guide.md"), blocks("docs/edge.md", "An edge in ten lines")
    port, ssh = platform.ports["EDGE_PORT"], " ".join(ssh_command(int(platform.ports["SSH_PORT"]), platform.key))
    text = "\n".join([api.partition("\n")[2].partition("\nPROJECT")[0], *edge]).replace("ssh -p 2222", ssh)
    for old, new in (
        (".local/edge/authority.crt", str(platform.api.local / "edge" / "authority.crt")),
        ("tunnels.localhost:8443", f"tunnels.localhost:{port}"),
        *((default_port, str(free_port())) for default_port in ("3001", "3002")),
    ):
        text = text.replace(old, new)
    settings = {"PATH": os.environ["PATH"], "BASE_URL": platform.api.base_url, "API_KEY": platform.api.token}

    result = subprocess.run(
        ["bash", "-euc", text],
        cwd=tmp_path,
        env={**settings, "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert result.returncode == 0, result.stderr
    colors = result.stdout.splitlines()
    assert colors == sorted(colors)  # no green before the shift, no blue after it, nothing else at all
    assert {*colors} == {"blue", "green"}
    assert list(tmp_path.iterdir()) == []  # the page's files are in a temporary folder


@pytest.mark.needs("redis")
def test_the_page_s_database_behind_a_nat_answers_its_own_client(platform: Platform, tmp_path: Path) -> None:
    (text,) = blocks("docs/edge.md", "Ports and TLS passthrough")
    ssh = " ".join(ssh_command(int(platform.ports["SSH_PORT"]), platform.key))
    for old, new in (("ssh -p 2222", ssh), ("6399", str(free_port())), ("20033", str(free_ports(1)[0]))):
        text = text.replace(old, new)
    command = ["bash", "-euc", f"{text}\nkill $(jobs -p)"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.splitlines()[-3:]) == (0, ["PONG", "OK", "hello"]), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_edge_does_what_the_api_says_also_where_control_is_killed(platform: Platform) -> None:
    client = platform.api.client()
    answer = client.create("/backends/http_response", {"status_code": 202})["id"]
    path = f"/edges/https/{client.create('/edges/https', {'hostports': ['said.tunnels.localhost:443']})['id']}"
    route = client.create(f"{path}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    client.put(f"{path}/routes/{route}/backend", {"backend_id": answer})
    until(lambda: platform.visit("said") == "202")
    until(lambda: client.get(f"{path}/status").json["state"] == "live")
    status = client.get(f"{path}/status").json
    assert (status["revision"], status["hosts"]) == (3, 1)

    os.kill(platform.child("control"), signal.SIGKILL)
    client.put(
        f"{path}/routes/{route}/oauth",
        {"provider": {"github": {"scopes": ["user"], "client_id": "a", "client_secret": "b"}}},
    )

    until(lambda: platform.visit("said") == "401")  # by the sign-in service
    until(lambda: client.get(f"{path}/status").json["state"] == "live")
    now = client.get(f"{path}/status").json
    assert [{**hostport, "since": ""} for hostport in now["hostports"]] == [
        {**hostport, "since": ""} for hostport in status["hostports"]
    ]
    assert (now["routes"][0]["state"], now["routes"][0]["error"]) == ("live", "")
    client.delete(path)
    until(lambda: platform.visit("said") == "404")


def test_it_may_have_as_many_connections_as_the_system_permits(platform: Platform) -> None:
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    for name in ("gateway", "bootstrap"):
        assert resource.prlimit(platform.child(name), resource.RLIMIT_NOFILE) == (limit, limit)


def test_envoys_environment_holds_nothing(platform: Platform) -> None:
    environments = [Path(f"/proc/{platform.child(name)}/environ").read_bytes() for name in ("control", "bootstrap")]
    assert b"AWS_ACCESS_KEY_ID=" in environments[0]
    assert environments[1] == b""


def test_a_name_is_had_ended_and_seen_by_nobody_else(platform: Platform) -> None:
    newcomer = platform.api.newcomer()
    key, stranger = credential(newcomer, "stranger"), newcomer.client()
    client = platform.ssh("-R", "mine:80:localhost:1")
    client.wait_for("is online")
    other = platform.ssh("-R", "mine:80:localhost:1", key=key)
    assert other.wait() == 1
    assert other.lines == ["mine.tunnels.localhost is in use already: choose another name."]
    assert stranger.get("/tunnels").json["tunnels"] == []
    (tunnel,) = platform.tunnels("mine")
    assert stranger.get(f"/tunnels/{tunnel['id']}").status == 404
    client.kill()


def test_the_operator_ends_a_tunnel_and_bans_its_name(platform: Platform) -> None:
    client = platform.ssh("-R", "banned:80:localhost:1")
    client.wait_for("is online")
    platform.operator("names", "ban", "banned.tunnels.localhost")
    assert platform.tunnels("banned") == []
    assert client.wait(within=2) == 1
    second_client = platform.ssh("-R", "banned:80:localhost:1")
    assert second_client.wait() == 1
    assert second_client.lines == ["The operator has banned banned.tunnels.localhost: choose another name."]


NAME_OF_THE_PAGE = "demo.tunnels.example.com"


def operate(platform: Platform, command: str, *words: tuple[str, str]) -> dict[str, str]:
    """Run a command of docs/edge-operations.md with other words in it; return what it tells, by name."""
    for old, new in words:
        command = command.replace(old, new)
    python, option, module, *arguments = shlex.split(command)
    assert (python, option, module) == ("python", "-m", "chalicelib")
    output = platform.operator(*arguments)
    return dict(line.split(" ", 1) for line in output.splitlines() if " " in line)


def test_from_an_abuse_address_to_offline_are_two_commands_also_when_the_tunnel_has_closed(
    platform: Platform,
) -> None:
    newcomer = platform.api.newcomer()
    key, edge = credential(newcomer, "abuser"), {"hostports": ["bank.tunnels.localhost:443"]}
    page = newcomer.client().create("/backends/http_response", {"status_code": 202})["id"]
    path = f"/edges/https/{newcomer.client().create('/edges/https', edge)['id']}"
    route = newcomer.client().create(f"{path}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    newcomer.client().put(f"{path}/routes/{route}/backend", {"backend_id": page})
    first = platform.ssh("-R", "phish:80:localhost:1", key=key)
    until(lambda: (platform.status("phish"), platform.visit("bank")) == ("502", "202"))
    seen_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    first.kill()
    until(lambda: platform.status("phish") == "404")
    other = platform.ssh("-R", "other:80:localhost:1", key=key)
    until(lambda: platform.status("other") == "502")
    command, suspend = blocks("docs/edge-operations.md", "The operator's commands")[0].splitlines()

    at = ("2026-11-22T03:00:00Z", seen_at)
    ids = operate(platform, command, (NAME_OF_THE_PAGE, "phish.tunnels.localhost"), at)
    operate(platform, suspend, ("sshcr_…", ids["credential"]))
    assert other.wait(within=5) == 1
    assert platform.ssh("-R", "other:80:localhost:1", key=key).wait() == 255

    ids = operate(platform, command.partition(" --at")[0], (NAME_OF_THE_PAGE, "bank.tunnels.localhost"))
    operate(platform, suspend, ("sshcr_…", ids["account"]))
    until(lambda: platform.visit("bank") == "404", within=5)


def read_common_name(platform: Platform, name: str) -> str:
    """Return the common name in the certificate of an address, "" where there is no handshake."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", int(platform.ports["EDGE_PORT"])), 5) as raw:
            secure = context.wrap_socket(raw, server_hostname=f"{name}.tunnels.localhost")
            der = secure.getpeercert(binary_form=True) or b""
    except OSError:
        return ""
    common_names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(common_names[0].value)


def test_what_the_api_has_answered_is_live_within_two_seconds(platform: Platform) -> None:
    newcomer = platform.api.newcomer()
    api = newcomer.client()
    bot = api.create("/bot_users", {"name": "bot"})
    key = credential(newcomer, "live", owner_id=bot["id"])
    client = platform.ssh("-R", "live:80:localhost:1", key=key)
    until(lambda: platform.status("live") == "502")
    uploaded_pair = openssl.issue("/CN=uploaded", extensions=("subjectAltName=DNS:live.tunnels.localhost",))

    certificate = api.create("/tls_certificates", uploaded_pair.upload)
    until(lambda: read_common_name(platform, "live") == "uploaded", within=2)
    api.delete(f"/tls_certificates/{certificate['id']}")
    until(lambda: read_common_name(platform, "live") == "*.tunnels.localhost", within=2)
    api.patch(f"/bot_users/{bot['id']}", {"active": False})
    until(lambda: platform.status("live") == "404", within=2)
    assert client.wait(within=2) == 1


PARTS = ("gateway", "control", "bootstrap")  # as they are named on their command lines; the last is Envoy


class Visits:
    """How often what was answered to those who asked since `begin`."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.answers = Counter[str]()

    def are_all_answered(self) -> bool:
        """Begin, and tell whether the next twenty were all answered."""
        self.begin()
        until(lambda: self.answers.total() >= 20, within=30)
        return self.answers.keys() == {"200"}


@contextlib.contextmanager
def visit_all_the_time(platform: Platform, name: str) -> Iterator[Visits]:
    """Ask for an address again and again, each time over a connection of its own; yield what was answered."""
    visits, is_over = Visits(), threading.Event()

    def visit() -> None:
        while not is_over.wait(0.02):
            answers = visits.answers
            answers[platform.visit(name)] += 1

    with ThreadPoolExecutor(2) as threads:
        visitors = [threads.submit(visit) for _ in range(2)]
        try:
            yield visits
        finally:
            is_over.set()
    for visitor in visitors:
        visitor.result()  # which raises what ended it early


@pytest.mark.parametrize("names", [*([part] for part in PARTS), *map(list, combinations(PARTS, 2))])
def test_whatever_is_killed_comes_back_with_its_names_and_gives_no_wrong_answer(
    platform: Platform, names: list[str]
) -> None:
    with upstream() as port, visit_all_the_time(platform, "back") as visits:
        first = platform.ssh("-R", f"back:80:127.0.0.1:{port}")
        first.wait_for("is online", within=30)
        until(visits.are_all_answered, within=30)  # also by each of Envoy's threads
        visits.begin()
        for name in names:
            os.kill(platform.child(name), signal.SIGKILL)
        until(lambda: all(platform.child(name) for name in names), within=30)
        if "gateway" in names:
            first.wait()
            until(lambda: _online(platform, f"back:80:127.0.0.1:{port}"), within=60)
        until(lambda: platform.status("back") == "200", within=60)  # each restart waits longer than the last
        until(lambda: visits.answers["200"] > 0)
    # Without a connection, and where the gateway was away without a tunnel or an answer; never a 404 else.
    assert visits.answers.keys() <= {"", "200", *({"404", "502"} if "gateway" in names else ())}


def _online(platform: Platform, forward: str) -> bool:
    client = platform.ssh("-R", forward)
    until(lambda: client.is_over or any("is online" in line for line in client.lines), within=30)
    return not client.is_over
