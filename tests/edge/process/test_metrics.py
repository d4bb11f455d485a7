"""The metrics of processes, over sockets and without Envoy."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from edge.process import metrics
from edge.process.metrics import FindUnready, ProcessMetrics, ReadMetrics
from edge.process.tasks import PeriodicTask
from tests.conftest import free_port

UP = "# HELP edge_up Whether a process answers.\n# TYPE edge_up gauge\n"


async def read_one() -> bytes:
    return b"one 1\n"


async def read_two() -> bytes:
    return b"two 2\n"


async def fail() -> bytes:
    raise OSError


async def find_nothing() -> str:
    return ""


async def find_silence() -> str:
    return "no gateway is ready"


async def find_age() -> str:
    return "the control process has not read the change log for 31 s"


def ask(path: str, processes: Mapping[str, ReadMetrics], checks: Sequence[FindUnready] = ()) -> tuple[str, str]:
    """Return the status and body of a response."""

    async def run() -> bytes:
        port = free_port()
        async with metrics.serve_at_port("127.0.0.1", port, processes, checks):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            answer = await reader.read(-1)
            writer.close()
            return answer

    head, _, body = asyncio.run(run()).decode().partition("\r\n\r\n")
    return head.splitlines()[0].removeprefix("HTTP/1.1 "), body


@pytest.mark.parametrize(
    ("path", "processes", "status", "body"),
    [
        ("/healthz", {"gateway": fail}, "200 OK", "ok\n"),
        ("/other", {"gateway": read_one}, "404 Not Found", "/metrics, /healthz, /readyz\n"),
        (
            "/metrics?x=1",
            {"gateway": read_one, "control": read_two},
            "200 OK",
            f'one 1\ntwo 2\n{UP}edge_up{{process="gateway"}} 1\nedge_up{{process="control"}} 1\n',
        ),
        (
            "/metrics",
            {"gateway": fail, "control": read_two},
            "200 OK",
            f'two 2\n{UP}edge_up{{process="gateway"}} 0\nedge_up{{process="control"}} 1\n',
        ),
        ("/metrics", {"": read_one}, "200 OK", "one 1\n"),
    ],
)
def test_one_port_answers_for_all_processes(
    path: str, processes: Mapping[str, ReadMetrics], status: str, body: str
) -> None:
    assert ask(path, processes) == (status, body)


UNREADY = "503 Service Unavailable"


@pytest.mark.parametrize(
    ("path", "checks", "status", "body"),
    [
        ("/readyz", [find_nothing], "200 OK", "ready\n"),
        ("/readyz?now", [], "200 OK", "ready\n"),
        ("/readyz", [find_nothing, find_silence], UNREADY, "no gateway is ready\n"),
        (
            "/readyz",
            [find_age, find_silence],
            UNREADY,
            "the control process has not read the change log for 31 s; no gateway is ready\n",
        ),
        ("/healthz", [find_silence], "200 OK", "ok\n"),
    ],
)
def test_a_host_is_ready_if_no_check_finds_a_reason(
    path: str, checks: Sequence[FindUnready], status: str, body: str
) -> None:
    assert ask(path, {"gateway": fail}, checks) == (status, body)


def test_of_two_instances_one_that_is_ready_suffices_and_both_are_told_apart(tmp_path: Path) -> None:
    sockets = {instance: tmp_path / f"m{instance}.sock" for instance in ("", "a", "b")}

    def process(name: str) -> ProcessMetrics:
        return ProcessMetrics(name, lambda: {"open": 3}, dict, ["said"])

    async def run() -> None:
        assert await metrics.find_unready("gateway", sockets) == "no gateway is ready"
        with pytest.raises(OSError, match="no answer"):
            await metrics.read_instances(sockets)()
        async with metrics.serve_at_socket(sockets["a"], process("test"), [find_silence]):
            assert await metrics.find_unready("gateway", sockets) == "no gateway is ready"
            async with metrics.serve_at_socket(sockets["b"], process("test"), [find_nothing]):
                assert await metrics.find_unready("gateway", sockets) == ""
                text = (await metrics.read_instances(sockets)()).decode()
        lines = text.splitlines()
        assert [line for line in lines if "edge_test_open" in line and not line.startswith("# HELP")] == [
            "# TYPE edge_test_open gauge",
            'edge_test_open{edge_instance="a"} 3.0',
            'edge_test_open{edge_instance="b"} 3.0',
        ]
        assert 'edge_test_events_total{edge_instance="b",event="said"} 0.0' in lines

    asyncio.run(run())


def test_a_process_is_read_at_its_socket(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    process = ProcessMetrics("test", lambda: {"open": 3}, lambda: {"requests": 7}, ["never_logged"])

    async def run() -> str:
        async with AsyncExitStack() as files, AsyncExitStack() as stack:
            await stack.enter_async_context(metrics.serve_at_socket(folder / "m.sock", process))
            files.enter_context((tmp_path / "file").open("w"))  # with the descriptor that the folder had
            with pytest.raises(OSError, match="404"):
                await metrics.read_from(folder / "m.sock", "/other")()
            return (await metrics.read_from(folder / "m.sock")()).decode()

    lines = asyncio.run(run()).splitlines()
    assert {"edge_test_open 3.0", "edge_test_requests_total 7.0"} <= {*lines}
    assert 'edge_test_events_total{event="never_logged"} 0.0' in lines
    assert caplog.messages == []  # such as an error of asyncio


def test_a_process_that_does_not_run_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(_read(tmp_path))


async def _read(folder: Path) -> bytes:
    return await metrics.read_from(folder / "m.sock")()


def test_the_lag_of_each_periodic_task_is_a_metric() -> None:
    async def read() -> str:
        is_over = asyncio.Event()

        async def work() -> None:
            is_over.set()

        running = asyncio.create_task(PeriodicTask("statuses", work, 60).run())
        await is_over.wait()
        text = await ProcessMetrics("control", dict, dict, ()).read()
        running.cancel()
        return text.decode()

    lines = [line for line in asyncio.run(read()).splitlines() if line.startswith("edge_control_lag_seconds")]
    assert lines == ['edge_control_lag_seconds{task="statuses"} 0.0']
