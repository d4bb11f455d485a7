"""`te login`, `te logout`, `te whoami`, `te profiles`."""

import sys
from dataclasses import replace

import click

from tunnel_edge import output
from tunnel_edge.api.client import Client, checked_url
from tunnel_edge.commands import options
from tunnel_edge.commands.options import Command
from tunnel_edge.errors import NOT_SIGNED_IN, USAGE, CommandError
from tunnel_edge.identity import profiles, store
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.identity.store import Secret


@click.command(cls=Command)
@click.argument("url", required=False)
@click.option("--key", is_flag=True, help="Store an API key, from standard input or a prompt.")
@click.option("--cacert", metavar="FILE", help="Verify the service's certificate with these authorities, too.")
def login(url: str | None, key: bool, cacert: str | None) -> None:
    """Sign in to a service, and store the token of a profile."""
    name = profiles.chosen_name(options.chosen().profile)
    profile = profiles.load(name) or Profile(name)
    profile = replace(profile, url=checked_url(url or profile.url), cacert=cacert or profile.cacert)
    login_with_key(profile)


@click.command(cls=Command)
@click.option("--end", is_flag=True, help="Delete the key at the service first.")
def logout(end: bool) -> None:
    """Delete the stored token of a profile."""
    profile = profiles.load(profiles.chosen_name(options.chosen().profile))
    if profile is None or not profile.storage:
        return
    if end:
        options.chosen().open_session().client.send("DELETE", "/api_keys/self")
    store.delete(profile.name, profile.storage)
    profiles.save(replace(profile, storage=""))
    output.note(f"The token of the profile '{profile.name}' is deleted.")


@click.command(cls=Command)
def whoami() -> None:
    """Show account, owner, scopes, end and storage of the token."""
    session = options.chosen().open_session()
    answer = session.client.get("/me")
    about = {"profile": session.profile.name, "url": session.client.url, "storage": session.storage}
    options.chosen().show({**answer, **about})


@click.command("profiles", cls=Command)
def list_profiles() -> None:
    """List the profiles of this machine."""
    chosen = options.chosen()
    rows = [
        {"id": each.name, "url": each.url, "account": each.account, "owner": each.owner, "storage": each.storage}
        for each in profiles.load_all()
    ]
    output.show_list(rows, chosen.shown_as, chosen.columns or ("id", "url", "account", "owner", "storage"))


def login_with_key(profile: Profile) -> None:
    """Verify an API key, and store it."""
    token = read_key()
    client = Client(profile.url, lambda: token, cacert=profile.cacert)
    me = client.get("/me")
    storage = store.preferred()
    output.note(f"The token is stored in: {store.location(profile.name, storage)}")
    key = me["key"]
    store.save(profile.name, storage, Secret(token, key["id"], expires_at=key["expires_at"] or ""))
    profiles.save(replace(profile, account=me["account"], owner=me["owner"]["name"], storage=storage))
    options.chosen().show(me)


def read_key() -> str:
    """Return the key from standard input, or from a prompt without echo."""
    if sys.stdin.isatty():
        if not sys.stderr.isatty():
            raise CommandError("A prompt for the key needs a terminal: write it to standard input.", NOT_SIGNED_IN)
        token = str(click.prompt("API key", hide_input=True, err=True))
    else:
        token = sys.stdin.read(4096)
    if not (token := token.strip()) or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError("Standard input has no API key: write the token, and nothing else.", USAGE)
    return token
