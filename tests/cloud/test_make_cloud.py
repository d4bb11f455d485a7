"""How the emulated cloud is started and ended: it leaves nothing behind, and touches nothing that is not its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import boto3
import pytest

from infra.local import cloud
from tests.conftest import ROOT, Served, free_port


def environment(folder: Path, port: int) -> dict[str, str]:
    return {**os.environ, "DEPLOYED_DIR": str(folder), "CLOUD_PORT": str(port), "MAKEFLAGS": ""}


def emulated(action: str, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "infra.local.emulated", action], cwd=ROOT, env=dict(settings))


def sourced(file: Path) -> dict[str, str]:
    """The environment of a shell that has read this file."""
    told = subprocess.run(["sh", "-c", f". {file} && env -0"], env={}, capture_output=True, text=True, check=True)
    return dict(variable.split("=", 1) for variable in told.stdout.split("\0") if variable)


def said_by(action: str, settings: Mapping[str, str], folder: Path = ROOT) -> tuple[int, str]:
    """The exit status and the sentence on the error channel."""
    command = [sys.executable, "-m", "infra.local.emulated", action]
    done = subprocess.run(command, cwd=folder, env=dict(settings), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_another_process_that_has_the_number_by_now_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "started").write_text(f"EMULATED_CLOUD_PID={other.pid}\n")
        stopping = emulated("stop", environment(tmp_path, free_port()))
        assert stopping.wait(timeout=20) == 0
        assert other.poll() is None
        other.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_cloud_that_is_gone_already_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "started").write_text("EMULATED_CLOUD_PID=999999999\n")
    for _ in range(2):
        assert emulated("stop", environment(tmp_path, free_port())).wait(timeout=20) == 0


def test_a_cloud_that_ends_just_before_it_is_told_to_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "started").write_text("EMULATED_CLOUD_PID=999999999\n")
    ps = tmp_path / "bin" / "ps"  # says once that it goes on, which is not so any more
    ps.parent.mkdir()
    ps.write_text(f'#!/bin/sh\necho "S {cloud.MINISTACK}"\nrm "$0"\n')
    ps.chmod(0o700)
    settings = environment(tmp_path, free_port())
    stopping = emulated("stop", {**settings, "PATH": f"{ps.parent}:{settings['PATH']}"})
    assert stopping.wait(timeout=20) == 0
    assert not ps.exists()


def test_the_cloud_of_a_checkout_with_any_name_is_ended_in_any_locale(tmp_path: Path) -> None:
    checkout = tmp_path / "Bücher"
    programs = checkout / ".venv-cloud" / "bin"
    programs.mkdir(parents=True)
    (checkout / "infra").symlink_to(ROOT / "infra")
    (checkout / "chalicelib").symlink_to(ROOT / "chalicelib")
    (programs / "ministack").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    (programs / "ministack").chmod(0o700)
    settings = {**environment(tmp_path, free_port()), "LC_ALL": "C"}
    with subprocess.Popen([programs / "ministack"]) as going_on:
        (tmp_path / "started").write_text(f"EMULATED_CLOUD_PID={going_on.pid}\n")
        without_ps = said_by("stop", {**settings, "PATH": str(checkout)}, checkout)
        kept = (tmp_path / "started").exists()
        with_ps = said_by("stop", settings, checkout)
        going_on.poll()
        going_on.kill()
    assert without_ps == (1, "Install 'ps': only it knows whether the cloud goes on.\n")
    assert kept
    assert with_ps == (0, "")
    assert going_on.returncode == -signal.SIGTERM


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_no_cloud(deployed: Served, tmp_path: Path, ending: signal.Signals) -> None:
    port = free_port()
    starting = emulated("start", environment(tmp_path, port))
    while not cloud.answers(f"http://127.0.0.1:{port}"):
        assert starting.poll() is None
        time.sleep(0.02)
    starting.send_signal(ending)
    assert starting.wait(timeout=30) == 1
    assert not cloud.answers(f"http://127.0.0.1:{port}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("env", "NAME=another program's\n"),
        ("cloud.env", ""),
        ("cloud/table", ""),
        ("started", "PID=1\nNAME=daemon\n"),
        ("started", "it's another program's"),
        ("started/now", ""),
    ],
)
def test_what_no_start_left_is_refused_and_never_deleted(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    place = tmp_path / Path(name).parts[0]
    told = f"{place} is not of an emulated cloud: choose another place with DEPLOYED_DIR=….\n"
    for action, said in {"stop": (0, ""), "check": (1, told), "start": (1, told)}.items():
        assert said_by(action, environment(tmp_path, free_port())) == said
        assert file.read_text() == text
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_a_port_that_is_taken_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = environment(tmp_path, taken.getsockname()[1])
        done = subprocess.run(["make", "cloud"], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "cannot be used (Address already in use): choose another with CLOUD_PORT=….\n" in done.stderr
    assert "cryptography" not in done.stdout


def test_it_starts_anew_each_time_and_ends_with_nothing_left(deployed: Served, tmp_path: Path) -> None:
    port = free_port()
    settings = {**environment(tmp_path, port), "AWS_DEFAULT_REGION": "eu-west-1", "AWS_PROFILE": "nobody"}
    settings |= {"AWS_DEFAULT_PROFILE": "nobody", "AWS_CONFIG_FILE": str(ROOT / "README.md")}  # of another cloud, too
    settings |= {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
    settings |= {"VERSION_HEADERS": "Vendor-Version", "STRICT_REFERENCES": "true", "LOG_LEVEL": "ERROR"}
    settings["COLUMNS"] = "40"  # which ps heeds: the cloud is known by its whole command
    for _ in range(2):
        assert emulated("start", settings).wait(timeout=60) == 0
        assert {file.name for file in tmp_path.iterdir()} == {"cloud", "cloud.env", "env", "started"}
        assert cloud.answers(f"http://127.0.0.1:{port}")
        settings |= sourced(tmp_path / "cloud.env")  # of a cloud that the next start ends
    described = boto3.client("cloudformation", "eu-west-1", endpoint_url=f"http://127.0.0.1:{port}").describe_stacks
    (api,) = described(StackName="tunnel-edge-api")["Stacks"]
    given = {(parameter["ParameterKey"], parameter["ParameterValue"]) for parameter in api["Parameters"]}
    assert {("VersionHeaders", "Vendor-Version"), ("StrictReferences", "true"), ("LogLevel", "ERROR")} <= given
    assert emulated("stop", settings).wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_stage_that_would_lead_out_of_the_folder_is_refused_and_nothing_is_deleted(tmp_path: Path) -> None:
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".git") and entry.name != "build":
            (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / "precious").touch()
    for stage in ("..", "local", "../precious"):
        command = [sys.executable, "-m", "infra.deploy.package", stage]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        told = f"{stage} is no stage of .chalice/config.json to deploy: choose one of dev, prod.\n"
        assert (done.returncode, done.stderr) == (1, told)
    assert (tmp_path / "precious").exists()
