"""A reader of the page who pastes samples, with the ids of what there is in the place of the examples'."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import ROOT, Served

_EXAMPLE = re.compile(r"\b([a-z]+)_2TfXCSmBHSvnQdwvT1fBtQ1mFEY\b")
_ID = re.compile(r"\b([a-z]+)_([0-9A-Za-z]{27})\b")
_NEW_ACCOUNT = """
from chalicelib import ids
from chalicelib.operator import accounts, tunnels
account, _, token = accounts.create_account(ids.new("reader"), "admin")
print(token, tunnels.open_demo_tunnel(account.id, {"app": "web"}))
"""


@dataclass(frozen=True)
class Reader:
    """The API with a key of an account, and an id of each kind that the account has."""

    api: Served
    ids: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def new(api: Served) -> "Reader":
        """Return a reader in a new account, where the operator has opened what no request makes: a tunnel."""
        command, environment = [sys.executable, "-c", _NEW_ACCOUNT], {**os.environ, **api.cloud}
        process = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
        token, tunnel = process.stdout.split()
        return Reader(replace(api, token=token), {"tn": tunnel})

    def knows(self, sample: str) -> bool:
        """Tell whether there is one of each kind that a sample is about."""
        return {*_EXAMPLE.findall(sample)} <= self.ids.keys()

    def insert_ids(self, sample: str) -> str:
        return _EXAMPLE.sub(lambda example: self.ids[example[1]], sample)

    def run(self, command: Sequence[str | Path], cwd: Path, **settings: str) -> str:
        """Run a sample's program, which must succeed, and remember what it made; its output."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), **settings}
        environment |= {"BASE_URL": self.api.base_url, "API_KEY": self.api.token}
        process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100)
        assert (process.returncode, process.stderr) == (0, ""), (command, process.stdout)
        for prefix, id in _ID.findall(process.stdout):
            self.ids.setdefault(prefix, f"{prefix}_{id}")
        return process.stdout


def pick_samples(of_language: Mapping[str, str]) -> dict[str, str]:
    """Return samples of operations of every sort, in an order in which one makes what the next is about."""
    return {name: of_language[name] for name in _SOME}


_SOME = (
    "create_ssh_certificate_authority",
    "create_ssh_user_certificate",
    "list_ssh_user_certificates",
    "update_ssh_user_certificate",
    "get_ssh_certificate_authority_krl",
    "get_ssh_certificate_authority_public_key",
    "delete_ssh_user_certificate",
    "create_https_edge",
    "create_https_edge_route",
    "replace_https_edge_route_oauth",
    "get_https_edge_route_oauth",
    "delete_https_edge_route_oauth",
    "list_audit_events",
    "delete_https_edge",
)
