"""The commands `te requests`, for the recorded requests of a running `te http`."""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import click

from tunnel_edge import output
from tunnel_edge.commands import editing, options
from tunnel_edge.commands.options import Group
from tunnel_edge.errors import FAILED, NOT_FOUND, USAGE, CommandError
from tunnel_edge.inspector.control import shorten_path, socket_file

_COLUMNS = ("id", "at", "client", "method", "path", "status", "ms")
_TIMEOUT = 60.0  # seconds to wait for the result of a command. A replay waits for the local server
_PID = click.option("--pid", type=int, help="The process of te http. Default: the newest one.")
_SECRETS = click.option("--with-secrets", is_flag=True, help="Show the values of cookies and of authorization headers.")


@click.group(cls=Group)
def requests() -> None:
    """Show, replay and export the requests of a running te http."""


@requests.command("list")
@_PID
def list_requests(pid: int | None) -> None:
    """List the recorded requests, the newest first."""
    chosen = options.chosen()
    rows = _ask(pid, command="list")
    output.show_list(rows, chosen.shown_as, chosen.columns or _COLUMNS, utc=chosen.utc)


@requests.command()
@click.argument("id", type=int)
@_PID
@_SECRETS
def show(id: int, pid: int | None, with_secrets: bool) -> None:
    """Show a request and its response."""
    exchange = _ask(pid, command="show", id=id, with_secrets=with_secrets)
    if options.chosen().shown_as != "table":
        options.chosen().show(exchange)
        return
    for name in ("request", "response"):
        if message := exchange[name]:
            headers = "\n".join(f"{key}: {value}" for key, value in message["headers"])
            body = message.get("body", f"({message['size']} bytes that are not text)")
            click.echo(output.to_plain(f"{message['start']}\n{headers}\n\n{body}\n"))
    if exchange["note"]:
        output.note(exchange["note"])


@requests.command()
@click.argument("id", type=int)
@click.option("--edit", is_flag=True, help="Edit the request in $EDITOR first.")
@_PID
def replay(id: int, edit: bool, pid: int | None) -> None:
    """Send a request to the local server again, and compare the responses."""
    edited = {}
    if edit:
        _check_editor()
        text = editing.edit(_ask(pid, command="text", id=id), "request.http")
        if text is None:
            raise CommandError("The editor saved nothing, so nothing was sent.", FAILED)
        edited = {"text": text}
    exchange = _ask(pid, command="replay", id=id, **edited)
    if options.chosen().shown_as != "table":
        options.chosen().show(exchange)
        return
    click.echo(f"{exchange['id']}  {exchange['status'] or 'no response'}  {exchange['ms']} ms")
    click.echo(output.to_plain("\n".join(exchange["differences"] or ["The responses are the same."])))


@requests.command()
@click.argument("id", type=int)
@click.option("--as", "form", type=click.Choice(["curl", "har"]), required=True, help="The format of the export.")
@_PID
@_SECRETS
def export(id: int, form: str, pid: int | None, with_secrets: bool) -> None:
    """Print a request as a curl command, or as a HAR file."""
    content = _ask(pid, command=form, id=id, with_secrets=with_secrets)
    print(content if form == "curl" else json.dumps(content, ensure_ascii=False, indent=2))


def _check_editor() -> None:
    """Raise CommandError if there is no terminal for the editor."""
    is_chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not (is_chosen or (sys.stdin.isatty() and sys.stdout.isatty())):
        raise CommandError("--edit needs a terminal: use one, or name a program in EDITOR.", USAGE)


def _ask(pid: int | None, **command: Any) -> Any:
    """Send a command to the socket of a running te http. Return the result."""
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        raise CommandError(
            "te requests needs Unix sockets, which this system does not have: use the inspector in a browser.", FAILED
        )
    with _connect(pid) as connection:
        connection.settimeout(_TIMEOUT)
        connection.sendall(json.dumps(command).encode() + b"\n")
        with connection.makefile("rb") as lines:
            answer = json.loads(lines.readline() or b'{"error": "te http has ended."}')
    if "error" in answer:
        raise CommandError(answer["error"], NOT_FOUND if answer.get("missing") else FAILED)
    return answer["result"]


def _connect(pid: int | None) -> socket.socket:
    """Connect to the te http with this process id, or to the newest one. Remove sockets of ended processes."""
    folder = socket_file(0).parent
    files = [socket_file(pid)] if pid else sorted(folder.glob("*.sock"), key=_age, reverse=True)
    for file in files:
        connection = socket.socket(socket.AF_UNIX)
        try:
            with shorten_path(file) as path:
                connection.connect(path)
        except ConnectionRefusedError:
            connection.close()
            file.unlink(missing_ok=True)
        except OSError:
            connection.close()
        else:
            return connection
    process = f"the process {pid}" if pid else "any process"
    raise CommandError(
        f"No te http with an inspector is running as {process} of this user: start one with 'te http'.", NOT_FOUND
    )


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
