"""The entry point of `te`: all commands, and the exit code of each error."""

import json
import os
import sys

import click

from tunnel_edge import __version__, output
from tunnel_edge.commands.options import Command, Group, Options
from tunnel_edge.errors import INTERRUPTED, USAGE, CommandError

_COMMANDS = {
    "login": "tunnel_edge.commands.login:login",
    "logout": "tunnel_edge.commands.login:logout",
    "whoami": "tunnel_edge.commands.login:whoami",
    "profiles": "tunnel_edge.commands.login:list_profiles",
}


@click.group(cls=Group, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def te() -> None:
    """Tunnels, SSH certificates and every resource of a tunnel-edge service."""


@te.command(cls=Command)
def version() -> None:
    """Show the version of this program."""
    click.echo(__version__)


def main() -> None:
    """Run the command of the arguments, and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command. Return its exit code."""
    context = None
    try:
        with te.make_context("te", arguments) as context:
            te.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except CommandError as error:
        _report(error, context)
        return error.code
    except BrokenPipeError:  # the reader, for example `head`, has what it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _report(error: CommandError, context: click.Context | None) -> None:
    """Print an error: its sentences, or its body with JSON output."""
    found = context.meta.get("tunnel_edge.commands.options") if context else None
    shown_as = (found if isinstance(found, Options) else Options()).shown_as
    body = getattr(error, "body", None)
    if shown_as in ("json", "ndjson") and body:
        print(json.dumps(body, ensure_ascii=False), file=sys.stderr)
    else:
        output.note(f"te: {error}")
