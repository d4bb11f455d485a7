"""The root of the operator's commands, and the function that runs them."""

import json
import os
import sys

import click
from click import shell_completion

from chalicelib.operator import (
    accounts,
    audit,
    command_line,
    keys,
    migrate,
    names,
    networks,
    owners,
    restore,
    store,
    suspensions,
    tunnels,
)
from chalicelib.operator.bulk import rewrapping
from chalicelib.operator.certificates import acme
from chalicelib.operator.command_line import CommandError, OperatorGroup, json_option
from chalicelib.operator.sign_in import oauth_apps, sign_in_keys
from chalicelib.operator.tenants import deletion, exporting, forgetting, importing
from chalicelib.storage import diagnosis
from chalicelib.storage.client.aws import AwsError

PROGRAM = "python -m chalicelib"
VERSION = "3.0.0"
_COMPLETE = "_CHALICELIB_COMPLETE"  # the variable that click's completion scripts set
_COMPLETED = "chalicelib"  # the program name for which click completes command lines

root = OperatorGroup(
    PROGRAM,
    help="The operator's command line. It works on the table that the environment names.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--as", "operator_name"],
            default="",
            metavar="NAME",
            help="The operator's name in audit events (default: the system user).",
        )
    ],
)
click.version_option(VERSION, message="tunnel-edge %(version)s")(root)
for _command in (
    *(accounts.group, owners.users, owners.bots, keys.group, suspensions.federated, tunnels.group, tunnels.print_usage),
    *(suspensions.suspend, suspensions.resume, networks.group, names.group, store.group, restore.group, audit.group),
    migrate.migrate,
    *(oauth_apps.group, sign_in_keys.group, rewrapping.group, acme.group),
):
    root.add_command(_command)
for _command in (exporting.export, importing.import_, deletion.delete):
    accounts.group.add_command(_command)
owners.users.add_command(forgetting.forget)


@root.command("routes", help="List the routes of the API, as JSON with their scopes and errors.")
@json_option
def _list_routes(as_json: bool) -> None:
    # imported here, because each other command would start more slowly
    from chalicelib import routes
    from chalicelib.documents import openapi
    from chalicelib.http.errors import NotFound

    if as_json:
        try:
            operations = [*openapi.operations()]
        except NotFound as missing:
            raise CommandError(missing.message) from None
        for operation in operations:
            print(json.dumps(operation))
        return
    for resource in routes.ALL:
        for endpoint in resource.endpoints():
            print(f"{endpoint.method:6} {endpoint.path}")


def main(words: list[str]) -> None:
    """Run a command. If it fails, print the reason and exit with status 1. Wrong usage exits with status 2."""
    if instruction := os.environ.get(_COMPLETE):
        sys.exit(shell_completion.shell_complete(root, {}, _COMPLETED, _COMPLETE, instruction))
    try:
        with root.make_context(PROGRAM, [*words]) as context:
            root.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:  # after --help or --version
        sys.exit(end.exit_code)
    except click.UsageError as error:
        command_line.exit_with_usage(error)
    except CommandError as error:
        sys.exit(str(error))
    except BrokenPipeError:
        # The reader of stdout has closed the pipe. Replace stdout by /dev/null, so that Python can flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except AwsError as error:
        sys.exit(diagnosis.sentence(error))
