"""The entry point of `te`: all commands, and the exit code of each error.

`te ssh ensure` runs before each SSH connection, so it must start fast. Modules that it does not need are imported in
the functions that use them.
"""

import os
import sys

import click

from tunnel_edge import __version__
from tunnel_edge.commands.options import Command, Group, Options
from tunnel_edge.errors import FAILED, INTERRUPTED, USAGE, CommandError

_COMMANDS = {
    "login": "tunnel_edge.commands.login:login",
    "logout": "tunnel_edge.commands.login:logout",
    "whoami": "tunnel_edge.commands.login:whoami",
    "profiles": "tunnel_edge.commands.login:list_profiles",
    "ssh": "tunnel_edge.commands.ssh:ssh",
    "api": "tunnel_edge.commands.api:call_api",
    "revoke": "tunnel_edge.commands.api:revoke",
    "offboard": "tunnel_edge.commands.api:offboard",
    "events": "tunnel_edge.commands.events:events",
    "completion": "tunnel_edge.commands.completion:completion",
    "http": "tunnel_edge.commands.tunnels:http",
    "tls": "tunnel_edge.commands.tunnels:tls",
    "tcp": "tunnel_edge.commands.tunnels:tcp",
    "requests": "tunnel_edge.commands.requests:requests",
}


class Root(Group):
    """The root command. It has the commands of this program, and a group for each kind of resource of the service."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from tunnel_edge.commands import kinds

        return sorted({*super().list_commands(ctx), *kinds.names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name. The operations of the service are loaded only if it is the name of a kind."""
        if command := super().get_command(ctx, cmd_name):
            return command
        from tunnel_edge.commands import kinds

        return kinds.build(cmd_name)


@click.group(cls=Root, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def te() -> None:
    """Tunnels, SSH certificates and every resource of a tunnel-edge service."""


@te.command(cls=Command)
def version() -> None:
    """Show the version of this program."""
    click.echo(__version__)


def run(arguments: list[str]) -> int:
    """Run a command. Return its exit code."""
    if instruction := os.environ.get("_TE_COMPLETE"):
        return _complete(instruction)
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
    except BrokenPipeError:
        # A program that reads the output, for example `head`, has ended. Python writes buffered output when it exits,
        # and would fail again. So that output goes to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _report(CommandError(str(error)), context)
        return FAILED
    return 0


def _complete(instruction: str) -> int:
    """Print the completions that a shell requests by environment variables."""
    from click.shell_completion import shell_complete

    from tunnel_edge.commands import completion

    return shell_complete(te, {}, "te", completion.VARIABLE, instruction)


def help_page() -> str:
    """Return the list of all commands, for a page of 80 columns."""
    return te.get_help(click.Context(te, info_name="te", terminal_width=80, **te.context_settings)) + "\n"


def _report(error: CommandError, context: click.Context | None) -> None:
    """Print an error: its sentences or, with JSON output, the JSON of the service's response."""
    from tunnel_edge import output

    options = context.meta.get("tunnel_edge.commands.options") if context else None
    shown_as = (options if isinstance(options, Options) else Options()).shown_as
    if shown_as in ("json", "ndjson") and error.body:
        print(output.to_json(error.body), file=sys.stderr)
    else:
        output.note(f"te: {error}")
