"""The provider, in this process and in a real Terraform."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from chalicelib.documents import openapi
from infra.build.terraform import kinds as translation
from infra.build.terraform import wheel
from tests import needs
from tests.transports import Client
from tunneledge_provider.api import Api, as_error
from tunneledge_provider.kinds import Kind, parse


@dataclass(frozen=True)
class InProcessApi(Api):
    """The API as the provider calls it, without a socket."""

    client: Client

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer = self.client.send(method, path, body)
        if answer.status >= 300:
            raise as_error(answer.status, answer.content)
        return dict(answer.json) if answer.text else {}


@pytest.fixture(scope="session")
def kinds() -> Mapping[str, Kind]:
    """Return the translated kinds by name."""
    document = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    return {kind.name: kind for kind in parse(translation.translate(document))}


@pytest.fixture
def api(admin: Client) -> Api:
    return InProcessApi(admin)


@dataclass(frozen=True)
class Terraform:
    """A folder with a configuration, and the environment in which Terraform runs there."""

    folder: Path
    plugins: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def with_token(self, token: str) -> "Terraform":
        return replace(self, environment={**self.environment, "TE_TOKEN": token})

    def init(self) -> "Terraform":
        self.run("init", f"-plugin-dir={self.plugins}")
        return self

    def run(self, *arguments: str, expected: int = 0) -> str:
        """Run a command that must exit as expected. Return all that it printed."""
        process = subprocess.run(
            ["terraform", *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert process.returncode == expected, process.stdout + process.stderr
        return process.stdout + process.stderr

    def plan(self, **variables: str) -> dict[str, str]:
        """Return the planned actions by address, without those that change nothing."""
        arguments = [f"-var={name}={value}" for name, value in variables.items()]
        lines = map(json.loads, self.run("plan", "-json", "-out=planned", *arguments).splitlines())
        changes = [line["change"] for line in lines if line["type"] == "planned_change"]
        return {
            change["resource"]["addr"]: change["action"]
            for change in changes
            if change["action"] not in ("import", "read")
        }

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of all managed resources by address."""
        state_file = json.loads((self.folder / "terraform.tfstate").read_text())
        managed = [resource for resource in state_file["resources"] if resource["mode"] == "managed"]
        return {
            f"{resource['type']}.{resource['name']}": resource["instances"][0]["attributes"] for resource in managed
        }


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of plugins with the wheel, installed in an environment of its own."""
    needs.need("terraform", "the environment of the Terraform provider", "the environment of make")
    folder = tmp_path_factory.mktemp("provider")
    program = wheel.install(wheel.build_wheel(folder), folder / "environment")
    subprocess.run([str(program), "install", str(folder / "plugins")], check=True, capture_output=True)
    return folder / "plugins"
