"""Commands about banned names, and about the settings TUNNEL_DOMAIN and TCP_PORTS that the table stores."""

import re

import click

from chalicelib.model.names import bans, base_names
from chalicelib.model.names.bans import TooManyPatterns
from chalicelib.model.tunnels import name_bans
from chalicelib.operator.command_line import CommandError, OperatorGroup, reason_option
from chalicelib.schema.fields import DOMAIN

_URL = re.compile(r"https?://([^/?#:]+).*|(?:tls|tcp)://([^/?#]+).*", re.DOTALL)
_NAME = "A whole host name (demo.tunnels.localhost), a port (tunnels.localhost:20022) or a pattern (*bank*)."

group = OperatorGroup("names", help="Banned host names and ports.")


def ban_name(name: str) -> None:
    """Ban a host name or port and end its tunnel, or ban a pattern of names. Raises CommandError."""
    try:
        bans.ban(bans.normalize(name)) if "*" in name else name_bans.ban_name(parse_host(name))
    except ValueError as error:
        raise CommandError(f"{name} {error}.") from None
    except TooManyPatterns:
        raise CommandError(
            f"{bans.MAX_PATTERNS} patterns are banned already, the maximum: remove one with 'names allow' first."
        ) from None


def allow_name(name: str) -> None:
    """Remove the ban of a host name, port or pattern. Raises CommandError."""
    if not (bans.allow(name.lower()) if "*" in name else name_bans.lift_name_ban(parse_host(name))):
        raise CommandError(f"The name {name} is not banned.")


def forget_settings(*, is_forced: bool) -> str:
    """Remove TUNNEL_DOMAIN and TCP_PORTS from the table. Return the removed values.

    The API and the edge can then start with other values. Raises CommandError if resources still have names and
    `is_forced` is False.
    """
    names = [] if is_forced else list(base_names.names_in_use())
    if names:
        raise CommandError(
            f"Nothing was changed: {len(names):,} names exist, for example {min(names)}. Names of another "
            "TUNNEL_DOMAIN and ports outside of TCP_PORTS are not served. Delete the resources that have these names "
            "and wait for the end of their cooldowns. If the new settings serve the names, or no one needs them, use "
            "--force."
        )
    if not (former := base_names.forget_settings()):
        raise CommandError("This table stores no TUNNEL_DOMAIN, so there is nothing to forget.")
    return former


def parse_host(name: str) -> str:
    """Return the host name, or host and port, of a name or URL. Raises CommandError."""
    url = _URL.fullmatch(name.lower())
    host = url[1] or url[2] if url else name.lower()
    if not re.fullmatch(rf"{DOMAIN}(:[1-9][0-9]{{0,4}})?", host):
        raise CommandError(f"{name} is not a complete host name, for example demo.tunnels.localhost.")
    return str(host)


@group.command("ban", help="Ban a name. No tunnel can have it.")
@click.argument("name", help=_NAME)
@reason_option
def _ban(name: str) -> None:
    ban_name(name)


@group.command("allow", help="Remove the ban of a name.")
@click.argument("name", help=_NAME)
@reason_option
def _allow(name: str) -> None:
    allow_name(name)


@group.command("list", help="List the banned names and patterns.")
def _list() -> None:
    for name in (*name_bans.list_banned(), *bans.list_patterns()):
        print(name)


@group.command(
    "forget-settings", help="Remove TUNNEL_DOMAIN and TCP_PORTS from the table, so that other values can be used."
)
@click.option("--force", is_flag=True, help="Remove the settings even if names exist, which may then not be served.")
def _forget_settings(force: bool) -> None:
    former = forget_settings(is_forced=force)
    print(
        f"The table no longer stores {former}. The next process that uses names stores its own TUNNEL_DOMAIN and "
        "TCP_PORTS."
    )
