"""The commands of all kinds of resources, one for each operation of the service."""

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from tunnel_edge import output
from tunnel_edge.api import document
from tunnel_edge.api.client import Answer, Client
from tunnel_edge.api.document import Field, Operation
from tunnel_edge.commands import options
from tunnel_edge.commands.options import Command, Group
from tunnel_edge.errors import USAGE, CommandError
from tunnel_edge.identity import files, session

SECRET = "token"  # a field that the service returns only once, after a creation
_METAVARS = {"texts": "TEXT", "map": "K=V", "map:text": "K=V", "map:integer": "K=N"}


def names() -> list[str]:
    """Return the first word of the commands of each kind."""
    return sorted({operation.words[0] for operation in document.load()})


def build(name: str) -> click.Command | None:
    """Return the command group of a kind. Return None if there is no such kind."""
    operations = [operation for operation in document.load() if operation.words[0] == name]
    return _group((name,), operations) if operations else None


def _group(words: tuple[str, ...], operations: list[Operation]) -> Group:
    """Return the command group with all commands that begin with these words."""
    group = Group(words[-1], help=f"Commands for {' '.join(words).replace('-', ' ')}.")
    depth = len(words)
    for following in sorted({operation.words[depth] for operation in operations}):
        below = [operation for operation in operations if operation.words[depth] == following]
        leaf = next((operation for operation in below if len(operation.words) == depth + 1), None)
        group.add_command(_command(leaf) if leaf else _group((*words, following), below), following)
    return group


def _command(operation: Operation) -> Command:
    """Return the command of an operation, with an argument for each id and a flag for each field."""
    parameters: list[click.Parameter] = [
        click.Argument([name], metavar=name.upper(), shell_complete=_complete(operation)) for name in operation.names
    ]
    parameters += [_option(field) for field in (*operation.query, *operation.fields)]
    parameters += [click.Option([f"--{name.lower()}", _key(name)], metavar="TEXT") for name in operation.headers]
    if operation.fields:
        about = "Send this body, - for standard input."
        parameters.append(click.Option(["--json", "json_file"], metavar="FILE", help=about))
    if operation.items:
        parameters.append(click.Option(["--all", "all_pages"], is_flag=True, help="Follow all pages of the list."))
    if operation.id == "create_api_key":
        parameters.append(click.Option(["--token-file"], metavar="PATH", help="Write the token to this file only."))
    help_text = f"{operation.summary}.\n\n{operation.method} {operation.path}"
    return Command(operation.words[-1], params=parameters, callback=_callback(operation), help=help_text)


def _key(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "__") + "_"


def _option(field: Field) -> click.Option:
    """Return the flag of a field. Its value is parsed later, so that `@FILE` works for every type."""
    metavar = _METAVARS.get(field.type, field.type.upper())
    about = f"{field.help} [required]" if field.is_required else field.help
    return click.Option([field.flag, _key(field.path)], multiple=field.is_repeated, metavar=metavar, help=about)


def _callback(operation: Operation) -> Any:
    """Return the function that runs the command of an operation."""

    def call(**values: Any) -> None:
        chosen = options.chosen()
        client = session.open_public(chosen.profile) if operation.is_open else chosen.open_session().client
        if operation.items:
            _list(client, operation, values)
        else:
            _show(_send(client, operation, values), values.get("token_file"))

    return call


def _list(client: Client, operation: Operation, values: Mapping[str, Any]) -> None:
    """Print a list: its first page, or all pages."""
    chosen = options.chosen()
    pages = client.pages(_path(operation, values), _query(operation, values))
    entries = chain.from_iterable(page[operation.items] for page in (pages if values["all_pages"] else [next(pages)]))
    output.show_list(entries, chosen.shown_as, chosen.columns or operation.columns, utc=chosen.utc)


def _send(client: Client, operation: Operation, values: Mapping[str, Any]) -> Answer:
    headers = {name: values[_key(name)] for name in operation.headers if values[_key(name)]}
    body = _body(operation, values) if operation.fields else None
    path, query = _path(operation, values), _query(operation, values)
    return client.send(operation.method, path, body, query, headers)


def _path(operation: Operation, values: Mapping[str, Any]) -> str:
    return operation.path.format_map({name: quote(values[name], safe="") for name in operation.names})


def _query(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {field.path: values[_key(field.path)] for field in operation.query}
    return {name: value for name, value in parameters.items() if value is not None}


def _body(operation: Operation, values: Mapping[str, Any]) -> Any:
    """Return the body of a request: the content of the file in `--json`, or the values of the flags."""
    texts = dict(_texts(operation.fields, values))
    if not (file := values["json_file"]):
        return document.body_of(operation.fields, texts)
    if texts:
        raise CommandError("--json gives the whole body: leave out the flags of fields.", USAGE)
    return read_json("--json", file)


def _texts(fields: tuple[Field, ...], values: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the path of each field with a flag on the command line, and the values of the flag."""
    for field in fields:
        value = values[_key(field.path)]
        if value not in (None, ()):
            yield field.path, value if field.is_repeated else (value,)


def read_json(flag: str, file: str) -> Any:
    """Return the JSON of a file, or of standard input for `-`. Raises CommandError."""
    try:
        return json.loads(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{flag}: {file} is not a file with JSON: {error}", USAGE) from error


def _show(answer: Answer, token_file: str | None) -> None:
    """Print the content of a response: an object, a text, or nothing. A token is printed or written to a file."""
    if not answer.content:
        return
    if not answer.headers.get("content-type", "").startswith("application/json"):
        click.echo(output.to_plain(answer.content.decode("utf-8", "replace")).rstrip("\n"))
        return
    body = answer.json
    if token_file and body.get(SECRET):
        files.write_secret(Path(token_file), f"{body.pop(SECRET)}\n".encode())
    options.chosen().show(body)


def _complete(operation: Operation) -> Any:
    """Return the function that completes an id argument with the ids that the service lists."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from tunnel_edge.commands import completion

        return completion.ids(operation, ctx, str(parameter.name), incomplete)

    return complete
