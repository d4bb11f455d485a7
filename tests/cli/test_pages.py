"""Every block of docs/cli.md and of the README that begins with `te` works, in one shell and in this order."""

import re
import shlex
import sys
import time
from itertools import takewhile
from pathlib import Path

import click
import pytest

from tests.cli import issuer as issuers
from tests.cli.conftest import User
from tests.cli.issuer import OidcIssuer
from tests.cloud.pages import blocks
from tests.conftest import ROOT, Served
from tests.live.ssh import sshd
from tests.live.ssh.sshd import USER
from tests.transports import Client
from tunnel_edge.app import te

pytestmark = pytest.mark.needs("bash", "ssh", "sshd")

# These open tunnels, or speak to an open one: only their words are checked.
SERVING = ("te http", "te tls", "te tcp", "te requests")

# A program in place of a browser, which signs in at the issuer.
BROWSER = """
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"")).read()
"""


def create_resources(admin: Client, issuer: OidcIssuer) -> dict[str, str]:
    """Return the variables of the page, with the resources that they name."""
    owner = admin.get("/me").json["owner"]["id"]
    fields = {"issuer": issuer.url, "audiences": [issuers.CLIENT], "claims": {"sub": "ada"}, "owner_id": owner}
    more = {"scopes": ["*"], "sign_in": {"client_id": issuers.CLIENT}, "max_lifetime": 3600}
    authority = admin.create("/ssh_certificate_authorities", {})
    return {
        "API": admin.transport.base_url,
        "BASE_URL": admin.transport.base_url,
        "API_KEY": admin.token,
        "FEDERATED": admin.create("/federated_credentials", {**fields, **more})["id"],
        "ID_TOKEN": issuer.token(),
        "AUTHORITY": authority["id"],
        "CA_KEY": authority["public_key"],
        "USER": USER,
        "HOSTPORT": f"shop-{time.monotonic_ns()}.tunnels.localhost:443",
        "LEAVING": admin.create("/bot_users", {"name": f"leaving-{time.monotonic_ns()}"})["id"],
    }


def install(user: User, variables: dict[str, str], server: sshd.Sshd) -> User:
    """Return the user with an agent's place, a browser, and an `ssh` that knows the server of the page."""
    programs = user.home / "programs"
    programs.mkdir()
    (user.home / "browser.py").write_text(BROWSER)
    config = user.home / "ssh_config"
    options = "StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  BatchMode yes"
    config.write_text(f"Host server.example.com\n  HostName {sshd.HOST}\n  Port {server.port}\n  {options}\n")
    (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -n -F "{config}" "$@"\n')
    (programs / "ssh").chmod(0o700)
    path = f"{programs}:{user.te.parent}:/usr/bin:/bin"
    return user.with_settings(**variables, PATH=path, BROWSER=f"{sys.executable} {user.home}/browser.py")


def test_every_block_works(user: User, served: Served, issuer: OidcIssuer, tmp_path: Path) -> None:
    admin = served.client()
    variables = create_resources(admin, issuer)
    (tmp_path / "sshd").mkdir()
    with sshd.running(tmp_path / "sshd") as server:
        server.trust({"public_key": variables.pop("CA_KEY")})
        reader = install(user, variables, server)
        page = [block for block in blocks("docs/cli.md") if not block.startswith(SERVING)]
        until_revoked = next(index for index, block in enumerate(page) if "te revoke" in block)
        agent = ['eval "$(ssh-agent)" > agent.log', "trap 'ssh-agent -k > agent.log' EXIT"]
        certificate = "CERTIFICATE=$(te ssh-user-certificates list -o id)"
        script = [*agent, *page[:until_revoked], certificate, *page[until_revoked:]]
        readme = [block.replace("ssh server.example.com", "ssh server.example.com true") for block in of_readme()]
        output = reader.run_script("\n".join([*script, *readme, "echo the end"]))
    assert output.endswith("the end\n")
    assert '"storage": "memory"' in output
    assert 'Match host *.example.com exec "te ssh ensure %n %r"' in output
    assert '"reason": "lost laptop"' in output
    assert "Back soon." in output


def of_readme() -> list[str]:
    return [block for block in blocks("README.md") if block.startswith("te ") and "te http" not in block]


PIPELINES = re.findall(r"^ *(?:- )?(te .*?)(?: > .*)?$", (ROOT / "docs" / "ci.md").read_text(), re.M)


@pytest.mark.parametrize(
    "line",
    [
        line
        for page in ("docs/cli.md", "README.md")
        for block in blocks(page)
        for line in block.splitlines()
        if line.startswith(SERVING)
    ],
)
def test_the_words_of_the_other_blocks_are_accepted(line: str) -> None:
    command: click.Command = te
    words = shlex.split(line, comments=True)[1:]
    while isinstance(command, click.Group):
        subcommand = command.get_command(click.Context(command), words.pop(0))
        assert subcommand
        command = subcommand
    command.make_context("te", words)


def test_the_commands_and_options_of_the_pipelines_exist(user: User) -> None:
    assert len(PIPELINES) > 3
    for line in PIPELINES:
        words = shlex.split(line)[1:]
        command = takewhile(lambda word: re.fullmatch("[a-z]+", word), words)
        result = user.run(*command, "--help")
        assert result.returncode == 0, line
        assert {word for word in words if word.startswith("--")} <= {*re.findall(r"--[a-z-]+", result.stdout)}, line
