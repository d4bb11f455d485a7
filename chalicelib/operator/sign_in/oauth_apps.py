"""Commands for managed OAuth applications, which the operator registers at identity providers.

A route uses such an application if the route's OAuth module has no client_id.
"""

import json
import sys

import click

from chalicelib.model.sign_in import managed_apps
from chalicelib.modules.oauth import EndpointOAuthProvider
from chalicelib.operator.command_line import CommandError, OperatorGroup, json_option, reason_option
from chalicelib.schema import shapes

_PROVIDERS = click.Choice(sorted(shapes.names(EndpointOAuthProvider)))
_PROVIDER = click.argument("provider", type=_PROVIDERS, help="The identity provider.")
_MAX_TEXT = 1024  # the most bytes of a client id or client secret

group = OperatorGroup("oauth-apps", help="Managed applications at identity providers.")


@group.command("set", help="Store an application. Its secret is read from standard input.")
@_PROVIDER
@click.option("--client-id", required=True, help="The client id of the application.")
@reason_option
def _set(provider: str, client_id: str) -> None:
    secret = sys.stdin.readline().rstrip("\r\n")
    if not 1 <= len(secret.encode()) <= _MAX_TEXT or not 1 <= len(client_id.encode()) <= _MAX_TEXT:
        raise CommandError(f"The client id and the secret must have 1 to {_MAX_TEXT} bytes.")
    managed_apps.set_app(provider, client_id, secret)
    print(f"The application {client_id} of {provider} is stored.")


@group.command("remove", help="Remove an application. Routes that use it are closed.")
@_PROVIDER
@reason_option
def _remove(provider: str) -> None:
    if not managed_apps.remove(provider):
        raise CommandError(f"There is no OAuth application for {provider}: nothing was removed.")


@group.command("list", help="List the applications, without their secrets.")
@json_option
def _list(as_json: bool) -> None:
    for provider, app in sorted(managed_apps.read_all().items()):
        output = {"provider": provider, "client_id": app.client_id, "created_at": app.created_at}
        print(json.dumps(output) if as_json else " ".join(output.values()))
