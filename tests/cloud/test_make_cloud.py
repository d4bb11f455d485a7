"""How the emulated cloud is started and ended: it leaves nothing behind, and touches nothing that is not its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from infra.local import cloud, terminal
from tests.conftest import ROOT, Served, client_of, free_port

PROGRESS = [
    "Starting the emulated cloud …",
    "Deploying the table, the key and the API …",
    "Deploying the API once more, with its address …",
    "Creating an account …",
]


def environment(folder: Path, port: int) -> dict[str, str]:
    return {**os.environ, "DEPLOYED_DIR": str(folder), "CLOUD_PORT": str(port), "MAKEFLAGS": ""}


def start_cloud(action: str, settings: Mapping[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "infra.local.emulated", action]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=dict(settings), stdout=pipe, stderr=pipe, text=True)


def said_by(action: str, settings: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit status and the sentence on the error channel."""
    process = start_cloud(action, settings)
    errors = process.communicate(timeout=60)[1]
    return process.returncode, errors


def test_it_starts_anew_with_the_settings_of_the_environment_and_ends_with_nothing_left(
    deployed_api: Served, tmp_path: Path
) -> None:
    port = free_port()
    settings = {**environment(tmp_path, port), "AWS_DEFAULT_REGION": "eu-west-1", "AWS_PROFILE": "nobody"}
    settings |= {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
    settings |= {"VERSION_HEADERS": "Vendor-Version", "STRICT_REFERENCES": "true", "LOG_LEVEL": "ERROR"}
    settings |= {"AUDIT_DAYS": "30"}
    first = start_cloud("start", settings)
    output, errors = first.communicate(timeout=60)
    assert (first.returncode, errors, re.findall("^[A-Z].* …$", output, re.M)) == (0, "", PROGRESS)
    assert {file.name for file in tmp_path.iterdir()} == {"cloud", "cloud.env", "env", "started"}
    described = client_of(terminal.read(tmp_path / "cloud.env"), "cloudformation").describe_stacks
    (api,) = described(StackName="tunnel-edge-api")["Stacks"]
    parameters = {(parameter["ParameterKey"], parameter["ParameterValue"]) for parameter in api["Parameters"]}
    assert {("VersionHeaders", "Vendor-Version"), ("StrictReferences", "true"), ("LogLevel", "ERROR")} <= parameters
    assert ("AuditDays", "30") in parameters

    starting = start_cloud("start", settings)  # which ends the first
    while cloud.is_answering(f"http://127.0.0.1:{port}") and (tmp_path / "env").exists():
        time.sleep(0.02)
    while not cloud.is_answering(f"http://127.0.0.1:{port}"):
        assert starting.poll() is None
        time.sleep(0.02)
    starting.send_signal(signal.SIGTERM)
    assert starting.wait(timeout=30) == 1
    assert not cloud.is_answering(f"http://127.0.0.1:{port}")
    assert list(tmp_path.iterdir()) == []


def test_what_no_start_left_is_refused_and_never_deleted(tmp_path: Path) -> None:
    file, settings = tmp_path / "env", environment(tmp_path, free_port())
    file.write_text("NAME=another program's\n")
    assert said_by("stop", settings) == (0, "")
    sentence = f"{file} does not belong to an emulated cloud: choose another folder with DEPLOYED_DIR=….\n"
    assert said_by("check", settings) == (1, sentence)
    assert [*tmp_path.iterdir()] == [file]


def test_another_process_that_has_the_number_by_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "started").write_text("EMULATED_CLOUD=yes\n")
        (tmp_path / "cloud").mkdir()
        (tmp_path / "cloud" / "process").write_text(str(other.pid))
        assert said_by("stop", environment(tmp_path, free_port())) == (0, "")
        assert other.poll() is None
        other.kill()
    assert list(tmp_path.iterdir()) == []


def test_the_cloud_of_a_start_that_was_killed_is_ended(tmp_path: Path) -> None:
    port = free_port()
    starting = start_cloud("start", environment(tmp_path, port))
    while not cloud.is_answering(f"http://127.0.0.1:{port}"):
        assert starting.poll() is None
        time.sleep(0.02)
    starting.kill()
    starting.wait()
    assert said_by("stop", environment(tmp_path, port)) == (0, "")
    assert not cloud.is_answering(f"http://127.0.0.1:{port}")
    assert list(tmp_path.iterdir()) == []
