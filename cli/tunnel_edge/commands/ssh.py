"""The commands `te ssh login`, `te ssh config`, `te ssh ensure`, and `te ssh HOST`."""

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from tunnel_edge.commands import options
from tunnel_edge.commands.options import Group
from tunnel_edge.errors import FAILED, USAGE, CommandError

if TYPE_CHECKING:
    from tunnel_edge.identity.session import Session

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
_SCOPE = re.compile(r"ssh_user_certificates:(?:create|write)@(sshca_\w+)")


class SshGroup(Group):
    """The commands of `te ssh`. Any other word is a host, or an option of `ssh`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. If there is no such command, connect to the word as a host."""
        if args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "HOST", connect, args


@click.group(
    cls=SshGroup,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    subcommand_metavar="COMMAND|HOST…",
)
def ssh() -> None:
    """Certificates for ssh, and connections with them."""


@ssh.command()
@click.option("--authority", metavar="ID", help="The authority. Default: the profile's, or the only one.")
@click.option("--principal", "principals", multiple=True, metavar="NAME", help="A login name. May be repeated.")
@click.option("--lifetime", metavar="8h", help="The life of certificates, like 30m, 8h, 2d.")
@click.option("--confirm", is_flag=True, help="The agent asks before each use of the key.")
@click.option("--file", "uses_files", is_flag=True, help="Write files instead of using the agent.")
def login(
    authority: str | None, principals: tuple[str, ...], lifetime: str | None, confirm: bool, uses_files: bool
) -> None:
    """Obtain a certificate, and put it into the agent."""
    from tunnel_edge.ssh import certificates

    session = options.chosen().open_session()
    profile = session.profile
    uses_files = uses_files or not _has_agent()
    request = certificates.Request(
        authority or profile.authority or _only_authority(session),
        principals or profile.principals or (session.client.get("/me")["owner"]["name"],),
        _seconds(lifetime) if lifetime else profile.lifetime,
        confirm,
        uses_files,
    )
    certificate = certificates.obtain(session, request)
    from datetime import UTC, datetime

    from tunnel_edge import output

    location = f"{certificates.key_file(_load_profile(profile.name))} (-cert.pub)" if uses_files else "the SSH agent"
    end = datetime.fromtimestamp(certificate.valid_before, UTC)
    output.note(f"A certificate for {', '.join(request.principals)} until {end:%Y-%m-%d %H:%M:%SZ} is in {location}.")


@ssh.command()
@click.option("--authority", metavar="ID", help="Use certificates of this authority from now on.")
@click.option("--host", "hosts", multiple=True, metavar="PATTERN", help="Only for these hosts. May be repeated.")
def config(authority: str | None, hosts: tuple[str, ...]) -> None:
    """Print the block for ~/.ssh/config that renews certificates."""
    from dataclasses import replace

    from tunnel_edge.identity import profiles
    from tunnel_edge.ssh import config as ssh_config

    if bad := [host for host in hosts if not re.fullmatch(r"!?[\w.*?:%-]+", host)]:
        raise CommandError(f"--host: '{bad[0]}' is not a pattern of host names: write one like *.example.com.", USAGE)
    profile = _load_profile(_name())
    if authority and authority != profile.authority:
        profile = replace(profile, authority=authority, authority_key="")
        profiles.save(profile)
    text = ssh_config.block(profile, hosts)
    click.echo(text, nl=False)
    question = "Write this block to a file, and include it in ~/.ssh/config?"
    if sys.stdin.isatty() and sys.stdout.isatty() and click.confirm(question, err=True):
        from tunnel_edge import output

        block_file, config_file = ssh_config.install(profile, text)
        output.note(f"{block_file} is written, and included at the beginning of {config_file}.")


@ssh.command()
@click.argument("words", nargs=-1, metavar="[%n] [%r]")
def ensure(words: tuple[str, ...]) -> None:
    """Renew the certificate if it ends soon: for `Match exec` of OpenSSH."""
    from tunnel_edge.ssh import renewal

    try:
        renewal.ensure(_load_profile(_name()))
    except CommandError as error:
        raise CommandError(str(error).partition("\n")[0], FAILED) from error


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def connect(words: tuple[str, ...]) -> None:
    """Renew the certificate if it ends soon, and run ssh."""
    from tunnel_edge.ssh import renewal

    try:
        renewal.ensure(_load_profile(_name()))
    except CommandError as error:
        from tunnel_edge import output

        output.note(f"te: {error}")
    try:
        os.execvp("ssh", ["ssh", *words])  # on Windows, execvp does not replace this process but starts another one
    except OSError as error:
        raise CommandError(f"ssh cannot be started: {error}", FAILED) from error


def _name() -> str:
    from tunnel_edge.identity import profiles

    return profiles.choose_name(options.chosen().profile)


def _load_profile(name: str) -> Any:
    """Return a stored profile. Raises CommandError if there is none."""
    from tunnel_edge.identity import profiles

    profile = profiles.load(name)
    if profile is None:
        raise CommandError(f"There is no profile '{name}': sign in with te login.", FAILED)
    return profile


def _has_agent() -> bool:
    from tunnel_edge.ssh import agent

    try:
        with agent.open_agent():
            return True
    except agent.NoAgentError:
        return False


def _only_authority(session: "Session") -> str:
    """Return the id of the SSH authority that the API key's scopes name.

    Without such a scope, return the id of the account's only SSH authority. Raises CommandError if there is none, or
    more than one.
    """
    scopes = session.client.get("/me")["key"]["scopes"]
    ids = {match[1] for scope in scopes if (match := _SCOPE.fullmatch(scope))}
    if not ids:
        listed = session.client.get("/ssh_certificate_authorities", limit="2")
        ids = {authority["id"] for authority in listed["ssh_certificate_authorities"]}
    if not ids:
        raise CommandError("There is no SSH authority: create one with te ssh-certificate-authorities create.", USAGE)
    if len(ids) > 1:
        raise CommandError("The account has several SSH authorities: name one with --authority sshca_…", USAGE)
    return str(ids.pop())


def _seconds(text: str) -> int:
    """Return the seconds in the text of --lifetime, for example 8h. Raises CommandError."""
    match = re.fullmatch(r"([1-9]\d{0,9})([smhd]?)", text)
    if not match:
        raise CommandError(f"--lifetime: '{text}' is not a duration: use a number with s, m, h or d, like 8h.", USAGE)
    return int(match[1]) * _UNITS[match[2]]
