"""What the tests share: the store in process (moto), the served API on the embedded cloud, accounts to act in."""

import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import SystemRandom
from typing import Any

import boto3
import httpx
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from moto import mock_aws
from xdist.scheduler import LoadScopeScheduling

from chalicelib.model.audit import trail
from chalicelib.model.names import base_names
from chalicelib.operator import keys, owners
from chalicelib.operator.accounts import create_account
from chalicelib.storage import provisioning
from infra.build.openapi import files
from infra.build.openapi.examples import NoSample
from infra.local import cloud, terminal
from tests import aws_in_memory, names, needs, secrecy
from tests.cloud import rights
from tests.cloud.evaluator import Call
from tests.transports import RECORD, Client, Http, InProcess

ROOT = Path(__file__).parent.parent

gc.disable()  # until the tests begin: there is nothing to collect in what is imported

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that the tests start is compiled again
sys.dont_write_bytecode = False
os.environ.update(  # before anything makes a client
    AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION="us-east-1"
)
SETTINGS = (
    *("ACCOUNT_BURST", "ACCOUNT_CERTIFICATES_PER_SECOND", "ACCOUNT_EVENTS_PER_SECOND", "ACCOUNT_REQUESTS_PER_SECOND"),
    *("ADDRESS_REJECTIONS_PER_SECOND", "METRICS_BY_ROUTE", "METRICS_NAMESPACE"),
    *("ACME_DIRECTORY", "ACME_DNS_ZONE"),
    *("AUDIT_DAYS", "BASE_URL", "KEY_ID", "LOG_LEVEL", "MEMBERS_ACT_FOR_ALL", "OIDC_ISSUERS", "OIDC_PROXY"),
    *("READ_ONLY", "SECOND_KEY_ID"),
    *("RECORD_FORMAT", "STRICT_REFERENCES", "TABLE_NAME", "TCP_PORTS", "TUNNEL_DOMAIN", "VERSION_HEADERS"),
)
for name in (*SETTINGS, "AWS_ENDPOINT_URL", "AWS_PROFILE", "LOCALSTACK_HOST"):
    os.environ.pop(name, None)
os.environ.update(cloud.proxy_exemption())
os.environ.update(TUNNEL_DOMAIN="tunnels.localhost", TCP_PORTS="20000-29999")  # here and in what is started

for ending in (signal.SIGINT, signal.SIGHUP):  # nohup and a shell's & have them ignored, here and in what is started
    if signal.getsignal(ending) is signal.SIG_IGN:
        signal.signal(ending, signal.SIG_DFL)

# How long an example takes says more of the machine than of the code.
hypothesis_settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def store() -> Iterator[None]:
    """Make the table and the key in this process (moto)."""
    aws_in_memory.install()
    with mock_aws(config={"core": {"mock_credentials": False}}):  # the emulated clouds know those from above
        provisioning.create_table()
        provisioning.create_key()
        gc.collect()
        gc.freeze()  # what is imported stays: half of the tests' time went into looking through it for garbage
        gc.enable()
        gc.set_threshold(50_000, 20, 50)  # most of what a test makes is gone by then
        yield


def stored() -> Any:
    """Return the records of the table, as they are stored, by scope and id."""
    return aws_in_memory.records()


@dataclass(frozen=True)
class Account:
    """An account whose records are made once, with a key that is in use already, and are there in each test."""

    admin: Client
    records: Mapping[Any, Mapping[Any, Any]]

    @staticmethod
    def new(name: str) -> "Account":
        account, user, token = create_account(name, "admin")
        admin = Client(InProcess(), account=account.id, user=user.id).with_token(token)
        assert admin.get("/api_keys").status == 200
        trail.let_edge_act(account.id)  # tests open tunnels as the edge does, without a credential
        records = {scope: {**items} for scope, items in stored().items()}
        stored().clear()
        return Account(admin, records)

    def open(self) -> Client:
        """Put its records into the table; return its admin's client."""
        for scope, items in self.records.items():
            stored().setdefault(scope, {}).update(items)
        return self.admin


@pytest.fixture(scope="session")
def accounts(store: None) -> Mapping[str, Account]:
    return {name: Account.new(name) for name in ("test", "other")}


@pytest.fixture(autouse=True)
def reset_store(accounts: Mapping[str, Account]) -> Iterator[None]:
    """Empty the table after each test."""
    yield
    empty_table()


def empty_table() -> None:
    """Empty the table. Note what is sealed in it, and its events."""
    note([record for records in stored().values() for record in records.values()])
    stored().clear()


def note(records: Iterable[Any]) -> None:
    """Note what is sealed in records, and the events among them."""
    for record in records:
        RECORD.sealed += secrecy.sealed_in(record)
        if record["id"]["S"].startswith("evt_"):
            RECORD.events.append(json.dumps(record["body"], default=str))


@pytest.fixture(scope="session")
def denials(store: None) -> Iterator[list[str]]:
    """Hold each call of this process to DynamoDB and KMS against the rights of the role whose code makes it."""
    denials: list[str] = []

    def hold(role: str, call: Call) -> None:
        if not rights.roles()[role].may(call):
            denials.append(f"{role} may not: {call}")

    with rights.record_calls(hold):
        yield denials


@pytest.fixture(autouse=True)
def within_rights(denials: list[str]) -> Iterator[None]:
    """Fail where a call of the test was not within the rights of who made it."""
    yield
    denials_of_test = denials[:]
    denials.clear()
    assert denials_of_test == []


@pytest.fixture(scope="session", autouse=True)
def recorded_logs(store: None) -> Iterator[None]:
    """Keep every log line in this process, with its traceback; when all tests are done, no secret was ever said."""
    formatter = logging.Formatter()

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            RECORD.logs.append(formatter.format(record))

    keep = Keep()
    logging.getLogger().addHandler(keep)
    logging.getLogger("tunnel_edge").addFilter(lambda line: bool(keep.handle(line)) or True)
    yield
    assert secrecy.find_secrets(RECORD) == []
    assert [line for line in secrecy.list_logged_lines(RECORD) if "PRIVATE KEY" in line] == []


# Those that share what is slow to start run in one process, but for files that start such for themselves.
ALONE = {
    "tests/served/test_exchanges_raced.py",
    "tests/served/test_faults.py",
    "tests/served/test_kept.py",
    "tests/served/test_recorded_states.py",
    "tests/served/test_strict_race.py",
}
assert all((ROOT / file).exists() for file in ALONE)
TOGETHER = {
    "tests/cloud/test_leaked_key.py": "served",
    "tests/cloud/test_readme.py": "served",
    "cli": "cli",
    "cloud": "deployed",
    "contract": "deployed",
    "docs": "served",
    "fuzz": "served",
    "served": "served",
    "live/docs": "served",
    "live/ssh": "served",
}


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # which has no types
    """Tests in several processes: those that share, and else those of one file, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in ALONE:
            return file
        folders = ["/".join(file.split("/")[1 : end + 1]) for end in (2, 1)]
        return next((TOGETHER[name] for name in (file, *folders) if name in TOGETHER), file)

    def _assign_work_unit(self, node: Any) -> None:
        """Give half of the processes the files that wait for servers and clients first, and half those that compute.

        What waits would leave the processors without work if it were all at the end.
        """
        if int(node.gateway.id.removeprefix("gw")) % 2:
            last = next(reversed(self.workqueue))
            self.workqueue.move_to_end(next(filter(self._must_wait, self.workqueue), last), last=False)
        super()._assign_work_unit(node)

    @staticmethod
    def _must_wait(scope: str) -> bool:
        return scope in ALONE or scope.startswith(
            ("tests/live/edge/", "tests/terraform/test_terraform", "tests/test_environments")
        )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not files.is_document_current():  # once, before there are workers
        try:
            files.write_document()
        except NoSample as missing:
            raise pytest.UsageError(str(missing)) from None
    config.addinivalue_line("markers", "needs(*names): what the machine must have, as tests/machine.py names it")


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and "CONTRACT_URL" not in os.environ and (report := needs.told_first()):
        reporter.write_line(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    stats = terminalreporter.stats
    reasons = [report.longrepr[2] for report in stats.get("skipped", ()) if isinstance(report.longrepr, tuple)]
    if report := needs.told_last(len(stats.get("passed", ())), reasons):
        terminalreporter.write_line(report)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the first test of the deployed package the time in which that is made; pytest counts it as the test's."""
    for item in items:
        if "deployed_api" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(PACKAGING + DEPLOYING + 120))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        needs.need(*marker.args)
    if _not_deployed and "deployed_api" in getattr(item, "fixturenames", ()):
        pytest.skip("The package could not be deployed: the first error says why.")


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run the tests: two for each core, since many tests wait for servers."""
    return 2 * (os.cpu_count() or 1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def transport() -> InProcess:
    return InProcess()


@pytest.fixture
def nobody(transport: InProcess) -> Client:
    """Return a client without a token."""
    return Client(transport)


@pytest.fixture
def admin(accounts: Mapping[str, Account]) -> Client:
    """Return a client with the key of the admin of an account that has nothing else."""
    return accounts["test"].open()


@pytest.fixture
def stranger(accounts: Mapping[str, Account]) -> Client:
    """Return a client with the key of the admin of another account."""
    return accounts["other"].open()


@pytest.fixture
def tunnel_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set another domain of tunnels than the default one."""
    monkeypatch.setenv("TUNNEL_DOMAIN", names.D)
    base_names.forget_settings()
    yield
    base_names.forget_settings()


@pytest.fixture
def member(transport: InProcess, admin: Client) -> Client:
    """Return a client with the key of a user of the admin's account who is no admin."""
    user = owners.add_owner(admin.account, "usr", "member", admin=False)
    _, token = keys.issue_key(admin.account, user.id, "")
    return Client(transport, account=admin.account, user=user.id).with_token(token)


def least(measured: Callable[[], float], *, bound: float) -> float:
    """Return the least of up to three measurements, none after one below the bound: a busy machine is slow at times."""
    measurements = [measured()]
    while min(measurements) >= bound and len(measurements) < 3:
        measurements.append(measured())
    return min(measurements)


_used_ports: set[int] = set()  # ports, by free_port
PACKAGING, DEPLOYING = 480, 100  # seconds
_not_deployed: list[str] = []


def place_among_workers() -> tuple[int, int]:
    """Return which process of these tests this is, and how many there are."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return worker, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def free_port() -> int:
    """Return a free port, which neither the system nor another process of these tests gives away, and this one once."""
    worker, workers = place_among_workers()
    while True:
        port = SystemRandom().randrange(10_000 + worker, 20_000, workers)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            if port not in _used_ports:
                _used_ports.add(port)
                return port


NEWCOMERS = """
from chalicelib import ids
from chalicelib.operator.accounts import create_account
for _ in range(24):
    print(create_account(ids.new("newcomer"), "admin")[2])
"""


@dataclass(frozen=True)
class Served:
    """The API as `make run` serves it, with an embedded cloud and a state of its own."""

    base_url: str
    token: str
    cloud: Mapping[str, str]  # the settings in which other programs speak to its cloud
    local: Path
    log: Path
    newcomers: list[str] = field(default_factory=list)  # tokens of accounts that nobody acts in yet

    def client(self) -> Client:
        return Client(Http(self.base_url)).with_token(self.token)

    def newcomer(self) -> "Served":
        """Return the same API for the admin of a new account, whose lists hold only what the test makes.

        Several are made at once: the process that makes them takes its time to start.
        """
        if not self.newcomers:
            environment = {**os.environ, **self.cloud}
            creation = subprocess.run(
                [sys.executable, "-c", NEWCOMERS], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
            )
            self.newcomers.extend(creation.stdout.split())
        return replace(self, token=self.newcomers.pop())


def serve(local: Path, **settings: str) -> tuple[subprocess.Popen[bytes], Served]:
    """Start what `make run` starts, with its packages, and wait until it answers."""
    needs.need("the embedded cloud")
    port, cloud_port, log = free_port(), free_port(), local.with_suffix(".log")
    RECORD.log_files.append(log)
    environment = {**os.environ, "LOCAL_DIR": str(local), "PORT": str(port), "CLOUD_PORT": str(cloud_port), **settings}
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.with_packages", "run", "infra.local.run"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
        )
    base_url = f"http://127.0.0.1:{port}"
    await_answer(base_url, process, log)
    token = dict(line.split("=", 1) for line in (local / "env").read_text().splitlines())["API_KEY"]
    return process, Served(base_url, token, {**settings, **terminal.read(local / "cloud.env")}, local, log)


def processes_with(setting: str) -> list[str]:
    """Return the command lines of all processes with `NAME=value` in their environment, which children inherit."""
    command_lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{setting}\0".encode() in (process / "environ").read_bytes():
                command_lines.append((process / "cmdline").read_text().replace("\0", " "))
    return command_lines


def await_answer(url: str, process: subprocess.Popen[bytes] | subprocess.Popen[str], log: Path) -> None:
    with httpx.Client(timeout=5, trust_env=False) as client:
        while process.poll() is None:
            with suppress(httpx.TransportError):
                client.get(url)
                return
            time.sleep(0.02)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve one API for all tests that need a socket, or a store for concurrent requests."""
    process, api = serve(tmp_path_factory.mktemp("served") / "local")
    yield api
    remember_stored(api)
    process.terminate()
    process.wait(timeout=30)


@pytest.fixture(scope="session")
def deployed_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Deploy the package behind the gateway of a cloud that checks every request against the policies."""
    needs.need("the embedded cloud", "the environment of make", "the page of the reference")
    local, port = tmp_path_factory.mktemp("deployed"), free_port()
    log = local / "cloud" / "cloud.log"
    environment = {**os.environ, "DEPLOYED_DIR": str(local), "CLOUD_PORT": str(port), "MAKEFLAGS": ""}
    _make(environment, PACKAGING, "package", "STAGE=dev", "ARCH=")  # by itself, since a busy machine takes its time
    _make(environment, DEPLOYING, "cloud")
    settings = terminal.read(local / "env")
    api = Served(settings["BASE_URL"], settings["API_KEY"], terminal.read(local / "cloud.env"), local, log)
    yield api
    RECORD.logs += [*log.read_text().splitlines(), *logged_by_functions(api)]
    subprocess.run(["make", "cloud-stop"], cwd=ROOT, env=environment, check=True, timeout=30)


def _make(environment: Mapping[str, str], seconds: int, *arguments: str) -> None:
    """Run make for the deployed package. If it fails say why once; the other tests of the package are skipped."""
    command = ["make", "--no-print-directory", *arguments]
    try:
        result = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=seconds,
        )  # fmt: skip
        problem = f"'{' '.join(command)}' failed:\n{result.stdout}" if result.returncode else ""
    except subprocess.TimeoutExpired:
        problem = f"'{' '.join(command)}' took longer than {seconds} s."
    if problem:
        _not_deployed.append(problem)
        pytest.fail(problem, pytrace=False)


def remember_stored(api: Served) -> None:
    """Keep the events that a served API has stored, and its secrets, opened: nothing that was said holds one."""
    kms = client_of(api.cloud, "kms")
    for page in client_of(api.cloud, "dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge"):
        for record in page["Items"]:
            for sealed, context in secrecy.sealed_in(record):
                decrypted = kms.decrypt(CiphertextBlob=sealed, EncryptionContext=context)
                RECORD.opened.add(decrypted["Plaintext"])
            if record["id"]["S"].startswith("evt_"):
                RECORD.events.append(json.dumps(record["body"], default=str))


def client_of(settings: Mapping[str, str], service: str) -> Any:
    """Return a boto3 client of a service in the emulated cloud with these settings."""
    return boto3.client(
        service,
        settings["AWS_DEFAULT_REGION"],
        endpoint_url=settings["AWS_ENDPOINT_URL"],
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
    )


def logged_by_functions(api: Served) -> Iterator[str]:
    """Yield every line that the functions of an emulated cloud have logged."""
    logs = client_of(api.cloud, "logs")
    for group in logs.describe_log_groups()["logGroups"]:
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"]):
            yield from (event["message"] for event in page["events"])


@pytest.fixture(scope="session")
def http(served: Served) -> Client:
    """Return a client for the first account's admin, over HTTP."""
    return served.client()
