"""The commands `te login`, `te logout`, `te whoami` and `te profiles`."""

import os
import sys
from dataclasses import replace

import click

from tunnel_edge import output
from tunnel_edge.api.client import Client, check_url
from tunnel_edge.api.errors import ApiError
from tunnel_edge.commands import explain, options
from tunnel_edge.commands.options import Command
from tunnel_edge.errors import NOT_SIGNED_IN, USAGE, CommandError
from tunnel_edge.identity import exchange, profiles, sign_in, store
from tunnel_edge.identity.oidc import Tokens
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.identity.sign_in import SignInMethod
from tunnel_edge.identity.store import Secret


@click.command(cls=Command)
@click.argument("url", required=False)
@click.argument("credential", required=False, metavar="[fcred_…]")
@click.option("--key", is_flag=True, help="Store an API key, from standard input or a prompt.")
@click.option("--federated", metavar="ID", help="Sign in with this federated credential.")
@click.option("--device", "method", flag_value="device", help="Confirm the sign-in on another device.")
@click.option("--paste", "method", flag_value="paste", help="Paste the address at which the sign-in ends.")
@click.option("--explain", "explained", is_flag=True, help="Show the token's claims and the conditions.")
@click.option("--cacert", metavar="FILE", help="Verify certificates with these authorities, too.")
def login(
    url: str | None, credential: str | None, key: bool, federated: str | None, method: str | None, explained: bool,
    cacert: str | None,
) -> None:  # fmt: skip
    """Sign in to a service, and store the token of a profile."""
    if url and url.startswith("fcred_") and not credential:
        url, credential = None, url
    if credential and not credential.startswith("fcred_"):
        raise CommandError(
            "Do not pass a token as an argument. Pass --key, and write the token to standard input or a prompt.", USAGE
        )
    profile = _profile(url, cacert)
    chosen = federated or credential or os.environ.get("TE_FEDERATED") or profile.federated
    if key:
        if federated or credential or method or explained:
            raise CommandError(
                "--key cannot be combined with --federated, --device, --paste or --explain: leave these out.", USAGE
            )
        _login_with_key(replace(profile, federated=""))
    elif chosen:
        _login_with_issuer(replace(profile, federated=chosen), SignInMethod(method or "browser"), explained=explained)
    else:
        raise CommandError("Name a federated credential (fcred_…), or give --key.", USAGE)


@click.command(cls=Command)
@click.option("--end", is_flag=True, help="Delete the key at the service first.")
def logout(end: bool) -> None:
    """Delete the stored token of a profile."""
    profile = profiles.load(profiles.choose_name(options.chosen().profile))
    if profile is None or not profile.storage:
        output.note("No token is stored.")
        return
    secret = store.load(profile.name, profile.storage)
    if end and secret:
        _end(Client(profile.url, lambda: secret.token, cacert=profile.cacert))
    store.delete(profile.name, profile.storage)
    profiles.save(replace(profile, storage=""))
    output.note(f"The token of the profile '{profile.name}' is deleted.")


@click.command(cls=Command)
def whoami() -> None:
    """Show the token's account, owner, scopes, expiry and storage."""
    chosen = options.chosen()
    current = chosen.open_session()
    answer = current.client.get("/me")
    about = {"profile": current.profile.name, "url": current.client.url, "storage": current.storage}
    chosen.show({**answer, **about})


@click.command("profiles", cls=Command)
def list_profiles() -> None:
    """List the profiles of this machine."""
    chosen = options.chosen()
    rows = [
        {
            "id": profile.name,
            "url": profile.url,
            "account": profile.account,
            "owner": profile.owner,
            "storage": profile.storage,
        }
        for profile in profiles.load_all()
    ]
    output.show_list(rows, chosen.shown_as, chosen.columns or ("id", "url", "account", "owner", "storage"))


def _profile(url: str | None, cacert: str | None) -> Profile:
    """Return the profile to sign in with. If `url` is given, it becomes the address of the profile's service."""
    name = profiles.choose_name(options.chosen().profile)
    profile = profiles.load(name) or Profile(name)
    address = check_url(url or os.environ.get("TE_URL") or profile.url)
    if address != profile.url:  # drop ids in the profile that only the previous service knows
        profile = Profile(name, storage=profile.storage)
    return replace(profile, url=address, cacert=os.path.abspath(cacert) if cacert else profile.cacert)


def _login_with_key(profile: Profile) -> None:
    """Verify an API key, and store it."""
    token = _read_key()
    me = Client(profile.url, lambda: token, cacert=profile.cacert).get("/me")
    _store(profile, Secret(token, me["key"]["id"], expires_at=me["key"]["expires_at"] or ""))


def _login_with_issuer(profile: Profile, method: SignInMethod, *, explained: bool) -> None:
    """Sign in at the issuer, exchange its token for an API key, and store the key. In a pipeline, store nothing."""
    ambient = exchange.ambient_token(profile.federated) if os.environ.get("TE_FEDERATED") else None
    tokens = Tokens(ambient) if ambient else sign_in.obtain(profile, method)
    if explained:
        explain.show_token(tokens.id_token)
    try:
        secret = exchange.exchange(Client(profile.url, cacert=profile.cacert), profile.federated, tokens.id_token)
    except ApiError:
        earlier = store.load(profile.name, profile.storage) if profile.storage and explained else None
        if earlier:
            explain.show_conditions(profile, earlier.token)
        raise
    if explained:
        explain.show_conditions(profile, secret.token)
    if ambient:
        options.chosen().show(Client(profile.url, lambda: secret.token, cacert=profile.cacert).get("/me"))
    else:
        _store(profile, replace(secret, refresh_token=tokens.refresh_token))


def _store(profile: Profile, secret: Secret) -> None:
    """Print where the API key will be stored, store it, and show its owner."""
    me = Client(profile.url, lambda: secret.token, cacert=profile.cacert).get("/me")
    storage = store.choose_storage()
    output.note(f"The token is stored in: {store.location(profile.name, storage)}")
    if profile.storage not in ("", storage):
        store.delete(profile.name, profile.storage)
    store.save(profile.name, storage, secret)
    profiles.save(replace(profile, account=me["account"], owner=me["owner"]["name"], storage=storage))
    options.chosen().show(me)


def _read_key() -> str:
    """Read an API key from standard input, or from a prompt without echo."""
    if sys.stdin.isatty():
        if not sys.stderr.isatty():
            raise CommandError(
                "There is no terminal to ask for the key: write the key to standard input.", NOT_SIGNED_IN
            )
        token = str(click.prompt("API key", hide_input=True, err=True))
    else:
        token = sys.stdin.read(4096)
    if not (token := token.strip()) or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError("Standard input has no API key: write the token, and nothing else.", USAGE)
    return token


def _end(client: Client) -> None:
    """Delete the API key that a client sends. Do nothing if the service already rejects this key."""
    try:
        client.send("DELETE", "/api_keys/self")
    except ApiError as error:
        if error.status != 401:
            raise
