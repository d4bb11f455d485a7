"""The base of the operator's commands: their classes, shared arguments and errors."""

import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from chalicelib.model.audit import trail

C = TypeVar("C", bound=Callable[..., Any])
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}
_MAX_SECONDS = 100 * 365 * 24 * 60 * 60


class CommandError(Exception):
    """A command cannot run. The message gives the reason."""


class UnknownId(CommandError):
    """No account, user, bot or key has this id."""


class _PlainCommand(click.Command):
    """A command that accepts unambiguous prefixes of long options, as argparse does."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage line as argparse does, beginning with "usage: "."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), prefix="usage: ")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, also with shortened long options. Raises click.UsageError."""
        try:
            return super().parse_args(ctx, [*args])
        except click.NoSuchOption as error:
            start = error.option_name
            options = [name for option in self.get_params(ctx) for name in (*option.opts, *option.secondary_opts)]
            matches = [name for name in options if name.startswith(start)]
            index = next((index for index, arg in enumerate(args) if arg.partition("=")[0] == start), None)
            if len(matches) != 1 or index is None or not start.startswith("--"):
                raise
            return self.parse_args(ctx, [*args[:index], args[index].replace(start, matches[0], 1), *args[index + 1 :]])


class OperatorCommand(_PlainCommand):
    """A command of the operator. The audit events of its changes show the operator and the reason."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and name the operator and the reason in its audit events."""
        with trail.operate_as(ctx.find_root().params["operator_name"], ctx.params.pop("reason", "")):
            return super().invoke(ctx)


class OperatorGroup(_PlainCommand, click.Group):
    """The commands for one noun, such as `accounts` or `keys`."""

    command_class = OperatorCommand

    def __init__(self, name: str, **settings: Any) -> None:
        """Create a group of commands. A command line that names only the group is a usage error."""
        super().__init__(name, no_args_is_help=False, **settings)


class ParsedText(click.ParamType[Any]):
    """The type of an argument that a function parses. A ValueError of this function becomes a usage error."""

    def __init__(self, name: str, parse: Callable[[str], Any], example: str) -> None:
        """Create the type with a parsing function. Usage errors contain `name` and `example`."""
        self.name, self._parse, self._example = name, parse, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value. Raises click.BadParameter."""
        try:
            return self._parse(value)
        except ValueError:
            self.fail(f"{value!r} is not a {self.name}: write one like {self._example}", param, ctx)


def account_argument(command: C) -> C:
    """Add the argument with the account's id to a command."""
    return click.argument("account", help="The account's id (acct_…).")(command)


def reason_option(command: C) -> C:
    """Add an option to a command: the reason that its audit events state."""
    about = "The reason that audit events show, at most 255 bytes."
    return click.option("--reason", default="", metavar="TEXT", help=about)(command)


def json_option(command: C) -> C:
    """Add the option for JSON output to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")(command)


def key_limits(command: C) -> C:
    """Add the options for the expiry and scopes of a new key to a command."""
    expiry = "When the key expires: 90d, 12h or 30m from now (default: never)."
    scope = "What the key may do, for example edges:read; can be repeated (default: everything)."
    command = click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help=scope)(command)
    return click.option(
        "--expires-in", type=ParsedText("duration", parse_duration, "90d"), metavar="TIME", help=expiry
    )(command)


def parse_duration(text: str) -> int:
    """Return the seconds of a duration such as 90d, 12h, 30m, 45s or 45. Raises ValueError."""
    form = re.fullmatch(r"([0-9]{1,9})([smhdw]?)", text)
    seconds = int(form[1]) * _SECONDS[form[2]] if form else 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise ValueError(text)
    return seconds


def exit_with_usage(error: click.UsageError) -> NoReturn:
    """Print the usage and the error to stderr, and exit with status 2."""
    message = error.format_message()
    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter) and error.param:
        message = f"argument {error.param.opts[0]}: {error.message}"
    if error.ctx:
        print(f"{error.ctx.get_usage()}\n{error.ctx.command_path}: error: {message}", file=sys.stderr)
    sys.exit(2)
