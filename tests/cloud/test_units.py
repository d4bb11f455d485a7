"""The units of the live edge: a process each, with as little as it needs."""

from configparser import ConfigParser, SectionProxy

import pytest

from infra import ROOT

PROCESSES = ("control", "envoy", "gateway")


def service(process: str) -> SectionProxy:
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "infra" / "deploy" / f"tunnel-edge-{process}.service")
    return unit["Service"]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_gains_no_rights_and_has_bounds(process: str) -> None:
    unit = service(process)
    assert (unit["NoNewPrivileges"], unit["ProtectSystem"]) == ("yes", "strict")
    assert {"MemoryMax", "TasksMax", "LimitNOFILE", "CapabilityBoundingSet"} <= unit.keys()


def test_envoy_has_a_user_of_its_own_and_neither_settings_nor_credentials() -> None:
    envoy = service("envoy")
    assert envoy["ExecStart"].startswith("/usr/bin/env -i ")
    assert not {"Environment", "EnvironmentFile", "PassEnvironment", "LoadCredential"} & envoy.keys()
    assert "169.254.169.254" in envoy["IPAddressDeny"]  # where the instance's credentials are
    assert len({service(process).get("User") for process in PROCESSES}) == len(PROCESSES)


def test_the_socket_with_the_keys_is_in_a_folder_of_controls_and_envoys_group() -> None:
    control, envoy, gateway = map(service, PROCESSES)
    assert control["Environment"] == "EDGE_DIR=/run/tunnel-edge"
    assert (control["RuntimeDirectory"], control["RuntimeDirectoryMode"]) == ("tunnel-edge", "1770")
    assert control["Group"] == envoy["Group"] == "tunnel-edge"
    assert (gateway["DynamicUser"], gateway.get("SupplementaryGroups")) == ("yes", None)
    assert gateway["Group"] == envoy["SupplementaryGroups"] == "tunnel-edge-link"  # of another folder
