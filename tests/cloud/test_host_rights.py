"""The sockets of a host that each unit of the live edge can open, computed from the units and their settings."""

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from edge.process import settings as environment
from edge.process.settings import ADMIN_SOCKET, STATS_SOCKET, Settings
from infra import ROOT
from tests.cloud.units import service

UNITS = ("control", "envoy", "gateway", "issuer", "sign-in")
USERS = (ROOT / "infra" / "deploy" / "tunnel-edge.sysusers.conf").read_text()


@dataclass(frozen=True)
class Access:
    """The user and the group that own a file, and its mode."""

    user: str
    group: str
    mode: int

    def permits(self, unit: str, needed: int) -> bool:
        """Return whether the processes of a unit have the bits of `needed`, as for others."""
        shift = 6 if service(unit)["User"] == self.user else 3 if self.group in groups(unit) else 0
        return self.mode >> shift & needed == needed


def groups(unit: str) -> set[str]:
    return {service(unit)["Group"], *service(unit).get("SupplementaryGroups", "").split()}


def settings(unit: str) -> Settings:
    """Return the settings that a unit reads: those of the page for operators, and those of the unit itself."""
    page = (ROOT / "docs" / "edge-operations.md").read_text()
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if block.startswith("TABLE_NAME="))
    page_settings = dict(line.split("=", 1) for line in block.splitlines())
    assignments = service(unit).get("Environment") or service(unit)["ExecStart"]
    own_settings = dict(
        assignment.split("=", 1) for assignment in assignments.replace("%i", "a").split() if "=" in assignment
    )
    return environment.from_environment({**({} if unit == "envoy" else page_settings), **own_settings})


def folders() -> Mapping[Path, Access]:
    """Return the folders that systemd makes for the units."""
    access: dict[Path, Access] = {}
    for unit in UNITS:
        directives = service(unit)
        for key, parent in (("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib")):
            if key in directives:
                mode = int(directives.get(f"{key}Mode", "0755"), 8)
                access[Path(parent) / directives[key]] = Access(directives["User"], directives["Group"], mode)
    return access


def sockets() -> Mapping[str, tuple[str, Path, int]]:
    """Return the units that make sockets, with the paths and modes of these, by their purposes."""
    control, envoy, gateway = settings("control"), settings("envoy"), settings("gateway")
    return {
        "private keys": ("control", control.discovery_socket, 0o660),
        "challenges": ("control", control.challenge_socket, 0o660),
        "administration of Envoy": ("envoy", envoy.own_file(ADMIN_SOCKET), 0o600),
        "metrics of Envoy": ("envoy", envoy.own_file(STATS_SOCKET), 0o660),
        "tunnels": ("gateway", gateway.link_socket("gw-1"), 0o660),
        "metrics of the gateway": ("gateway", gateway.gateway_sockets["a"], 0o666),
        "sign-in": ("sign-in", settings("sign-in").sign_in_socket, 0o660),
        "metrics of sign-in": ("sign-in", settings("sign-in").sign_in_metrics_socket, 0o666),
        "metrics of the issuer": ("issuer", settings("issuer").issuer_metrics_socket, 0o666),
    }


def list_reached(unit: str) -> set[str]:
    """Return the sockets of other units that a unit can connect to."""
    return {
        purpose
        for purpose, (maker, path, mode) in sockets().items()
        if maker != unit
        and folders()[path.parent].permits(unit, stat.S_IXOTH)
        and Access(service(maker)["User"], service(maker)["Group"], mode).permits(unit, stat.S_IWOTH)
    }


@pytest.mark.parametrize(
    ("unit", "purposes"),
    [
        ("control", {"metrics of Envoy", "sign-in", "metrics of sign-in", "metrics of the issuer"}),
        ("envoy", {"private keys", "challenges", "tunnels", "sign-in", "metrics of sign-in"}),
        ("gateway", set()),
        ("issuer", set()),
        ("sign-in", set()),
    ],
)
def test_a_unit_can_open_the_sockets_that_it_needs(unit: str, purposes: set[str]) -> None:
    everyone = {"metrics of the gateway"}  # whose folder is open, because control looks for near gateways there
    assert list_reached(unit) == purposes | (everyone if unit != "gateway" else set())


def test_control_and_envoy_look_for_sockets_where_the_other_units_make_them() -> None:
    control = settings("control")
    assert control.sign_in_socket == settings("sign-in").sign_in_socket
    assert control.sign_in_metrics_socket == settings("sign-in").sign_in_metrics_socket
    assert control.issuer_metrics_socket == settings("issuer").issuer_metrics_socket
    assert control.gateway_sockets == settings("gateway").gateway_sockets
    assert control.link_socket("gw-1") == settings("gateway").link_socket("gw-1")
    assert control.directory == settings("envoy").directory


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != "gateway"])  # systemd draws the gateway's user
def test_each_unit_has_a_user_of_its_own_with_the_group_of_the_unit(unit: str) -> None:
    user, group = service(unit)["User"], service(unit)["Group"]
    assert f"u {user} -:{group} " in USERS
    assert [other for other in UNITS if service(other)["User"] == user] == [unit]
    assert all(f"\ng {group} -\n" in USERS for group in groups(unit))
