"""The units of the live edge: a process each, with as little as it needs."""

import subprocess
from pathlib import Path

import pytest

from edge.process.settings import Limits
from infra import ROOT
from tests.cloud.units import service

PROCESSES = ("control", "envoy", "gateway")


@pytest.mark.parametrize("process", [*PROCESSES, "issuer", "sign-in"])
def test_a_process_gains_no_rights_and_has_bounds(process: str) -> None:
    unit = service(process)
    assert (unit["NoNewPrivileges"], unit["ProtectSystem"]) == ("yes", "strict")
    assert {"MemoryMax", "TasksMax", "LimitNOFILE", "CapabilityBoundingSet"} <= unit.keys()


def test_the_page_for_operators_names_every_unit_except_the_issuers() -> None:
    page = (ROOT / "docs" / "edge-operations.md").read_text()
    units_of_page = {f"tunnel-edge-{process}" for process in ("control", "envoy@", "gateway@", "sign-in")}
    files = {path.stem for path in (ROOT / "infra" / "deploy").glob("*.service")}
    assert files == {*units_of_page, "tunnel-edge-issuer"}  # whose page is docs/certificates.md
    assert {name for name in files if f"/infra/deploy/{name}.service)" in page} == units_of_page


@pytest.mark.needs("systemd")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    verified = list[str]()
    for file in (ROOT / "infra" / "deploy").glob("*.service"):
        unit = tmp_path / file.name.replace("@", "@a")
        unit.write_text(file.read_text().replace("/opt/tunnel-edge/.venv-edge/bin/python", "/bin/true"))
        verified.append(str(unit))
    assert len(verified) == 5
    command = ["systemd-analyze", "verify", "--man=no", *verified]
    result = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_envoy_has_a_user_of_its_own_and_neither_settings_nor_credentials() -> None:
    envoy = service("envoy")
    assert envoy["ExecStart"].startswith("/usr/bin/env -i ")
    assert not {"Environment", "EnvironmentFile", "PassEnvironment", "LoadCredential"} & envoy.keys()
    assert "169.254.169.254" in envoy["IPAddressDeny"]  # where the instance's credentials are
    assert len({service(process).get("User") for process in PROCESSES}) == len(PROCESSES)


def test_the_parent_of_envoy_is_told_its_folder_and_instance_and_nothing_else() -> None:
    command = service("envoy")["ExecStart"].split()
    variables, program = command[2:-4], command[-4:]
    assert variables == ["EDGE_DIR=/run/tunnel-edge", "EDGE_INSTANCE=%i"]
    assert program == ["/opt/tunnel-edge/.venv-edge/bin/python", "-m", "edge", "envoy"]
    assert service("envoy")["KillMode"] == "mixed"  # the signal that drains must not reach Envoy itself


def test_a_drain_with_the_defaults_fits_into_the_time_until_a_process_is_killed() -> None:
    limits = Limits()
    steps = limits.drain_timeout + limits.switch_timeout + limits.handover_timeout
    assert int(service("gateway")["TimeoutStopSec"]) == steps + 5 + 2
    assert int(service("envoy")["TimeoutStopSec"]) >= limits.drain_timeout + 10


def test_two_gateways_of_a_host_are_one_user_who_can_share_a_port_and_lose_no_folder() -> None:
    gateway = service("gateway")
    assert (gateway["User"], gateway["RuntimeDirectoryPreserve"]) == ("tunnel-edge-gateway", "yes")
    assert gateway["Environment"].split()[-1] == "EDGE_INSTANCE=%i"


def groups(process: str) -> set[str]:
    """Return the named groups that a process is in: the gateway's user is drawn, and in nobody else's."""
    unit = service(process)
    return {unit["Group"], *unit.get("SupplementaryGroups", "").split()}


def test_the_socket_with_the_keys_is_in_a_folder_of_controls_and_envoys_group() -> None:
    control, envoy, gateway = map(service, PROCESSES)
    assert control["Environment"].split()[0] == "EDGE_DIR=/run/tunnel-edge"
    assert (control["RuntimeDirectory"], control["RuntimeDirectoryMode"]) == ("tunnel-edge", "1770")
    assert control["Group"] == envoy["Group"] == "tunnel-edge"
    assert gateway["DynamicUser"] == "yes"
    assert [process for process in PROCESSES if "tunnel-edge" in groups(process)] == ["control", "envoy"]


def test_the_socket_of_the_gateway_is_in_its_own_folder_and_for_envoys_group() -> None:
    gateway = service("gateway")
    assert gateway["RuntimeDirectory"] == "tunnel-edge-gateway"
    assert gateway.get("RuntimeDirectoryMode", "0755") == "0755"  # control sees there which gateways are near
    assert gateway["Group"] == "tunnel-edge-link"  # of the socket, whose mode is 0660
    assert [process for process in PROCESSES if "tunnel-edge-link" in groups(process)] == ["envoy", "gateway"]


def test_the_issuer_leaves_no_core_dumps() -> None:
    issuer = service("issuer")
    assert issuer["ExecStart"].endswith("-m edge issuer")
    assert issuer["LimitCORE"] == "0"
