"""Options that every command accepts, and groups that load their commands when they are needed."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from tunnel_edge.identity.session import Session


FORMATS = ("table", "json", "ndjson", "id")


@dataclass(frozen=True)
class Options:
    """The options that every command accepts."""

    profile: str = ""
    format: str = ""
    utc: bool = False
    columns: tuple[str, ...] = ()

    @property
    def shown_as(self) -> str:
        """Return the chosen format of the output."""
        return self.format or ("table" if sys.stdout.isatty() else "json")

    def open_session(self) -> "Session":
        """Return the session of the chosen profile."""
        from tunnel_edge.identity import session  # imported only here, because importing urllib3 takes long

        return session.open_session(self.profile)

    def show(self, value: Mapping[str, Any]) -> None:
        """Print one object in the chosen format."""
        from tunnel_edge import output

        output.show_object(value, self.shown_as, utc=self.utc)


def chosen() -> Options:
    """Return the values of the common options, such as --profile, for the running command."""
    return cast(Options, click.get_current_context().meta.get(__name__, Options()))


class Command(click.Command):
    """A command with the options that every command accepts."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += _common()


class Group(click.Group):
    """A group of commands with the options that every command accepts.

    `lazy` has `module:name` for each command that is imported only when it is needed.
    """

    command_class = Command
    group_class = type

    def __init__(self, *arguments: Any, lazy: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name. Its module is imported now."""
        if cmd_name in self.lazy:
            module, _, name = self.lazy[cmd_name].partition(":")
            return cast(click.Command, getattr(importlib.import_module(module), name))
        return super().get_command(ctx, cmd_name)


def _common() -> list[click.Parameter]:
    return [
        click.Option(["--profile"], metavar="NAME", expose_value=False, callback=_store, help="Use this profile."),
        click.Option(
            ["-o", "--output", "format"],
            type=click.Choice(FORMATS),
            expose_value=False,
            callback=_store,
            help="Print a table, JSON, JSON lines, or ids only.",
        ),
        click.Option(["--utc"], is_flag=True, expose_value=False, callback=_store, help="Show times in UTC in tables."),
        click.Option(
            ["--columns"],
            metavar="NAMES",
            expose_value=False,
            callback=_store,
            help="Show these columns in tables, separated by commas.",
        ),
    ]


def _store(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Store the value of a given option, so that `chosen` returns it."""
    if value:
        value = tuple(value.split(",")) if parameter.name == "columns" else value
        ctx.meta[__name__] = replace(ctx.meta.get(__name__, Options()), **{str(parameter.name): value})
    return value
