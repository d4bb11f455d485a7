"""The command `te completion`, and the completion of ids."""

import os
from typing import Any

import click
from click.shell_completion import ShellComplete, add_completion_class, get_completion_class

from tunnel_edge.api import document
from tunnel_edge.api.document import Operation
from tunnel_edge.commands.options import Command
from tunnel_edge.identity import session
from tunnel_edge.tunnels import background

VARIABLE = "_TE_COMPLETE"
SECONDS = 0.3  # seconds to wait for a list of ids from the service. A slower list is not offered
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName te -ScriptBlock {
    param($word, $ast, $position)
    $words = $ast.CommandElements | ForEach-Object { $_.Extent.Text }
    $env:%(complete_var)s = "powershell_complete"
    $env:TE_WORDS = ($words | Select-Object -Skip 1) -join "`n"
    $env:TE_WORD = $word
    te | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
    Remove-Item Env:%(complete_var)s, Env:TE_WORDS, Env:TE_WORD
}
"""


@add_completion_class
class PowerShell(ShellComplete):
    """Completion for PowerShell, which click does not support."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words of the command line, and the word to complete."""
        words, word = os.environ.get("TE_WORDS", "").splitlines(), os.environ.get("TE_WORD", "")
        return (words[:-1] if word and words else words), word

    def format_completion(self, item: Any) -> str:
        """Return the line that the PowerShell script reads for one completion."""
        return str(item.value)


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, flags and ids in a shell."""
    completion_class = get_completion_class(shell)
    if completion_class is not None:
        root = click.get_current_context().find_root().command
        template = completion_class(root, {}, "te", VARIABLE)
        click.echo(template.source_template % template.source_vars())


def ids(operation: Operation, ctx: click.Context, name: str, incomplete: str) -> list[str]:
    """Return the ids that an argument can have. Return no ids if the service is slow."""
    path = operation.path.partition(f"/{{{name}}}")[0]
    list_operation = next(
        (candidate for candidate in document.load() if candidate.items and candidate.path == path), None
    )
    if list_operation is None:
        return []
    import urllib3  # noqa: F401 - now: its import is not part of the service's time

    try:
        entries = background.start_in_thread(lambda: _read(path.format_map(ctx.params)))(SECONDS)[list_operation.items]
    except Exception:  # print no error: the shell would insert its text into the command line
        return []
    return [entry["id"] for entry in entries if entry["id"].startswith(incomplete)]


def _read(path: str) -> Any:
    """Return the first page of a list, without prompts and without a browser."""
    client = session.open_session(timeout=SECONDS, attempts=1, may_ask=False).client
    return client.get(path, limit="100")
