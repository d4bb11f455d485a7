"""Obtains an ID token: by a browser, on another device, by a pasted URL, or by a refresh token."""

import secrets
from collections.abc import Callable
from enum import Enum

import click

from tunnel_edge import output
from tunnel_edge.api.client import Client, open_pool
from tunnel_edge.errors import NOT_SIGNED_IN, CommandError
from tunnel_edge.identity import browser, callback, exchange
from tunnel_edge.identity.oidc import Attempt, Provider, Tokens
from tunnel_edge.identity.profiles import Profile

_PASTED = 3  # how often a user can paste a URL before the sign-in fails


class SignInMethod(Enum):
    """The method of a sign-in: a browser on this machine, another device, or a pasted URL."""

    BROWSER = "browser"
    DEVICE = "device"
    PASTE = "paste"


def obtain(profile: Profile, method: SignInMethod) -> Tokens:
    """Return the tokens of a sign-in with the profile's federated credential."""
    if method is SignInMethod.BROWSER and not browser.is_allowed():
        raise CommandError(
            "This sign-in needs a browser, and there is no terminal: use --device or --paste, or set BROWSER.",
            NOT_SIGNED_IN,
        )
    provider = open_provider(profile)
    functions: dict[SignInMethod, Callable[[Provider], Tokens]] = {
        SignInMethod.BROWSER: _sign_in_by_browser,
        SignInMethod.DEVICE: _sign_in_by_device,
        SignInMethod.PASTE: _sign_in_by_paste,
    }
    return functions[method](provider)


def refresh(profile: Profile, refresh_token: str) -> Tokens:
    """Return new tokens for a refresh token. The user is not asked."""
    return open_provider(profile).refresh(refresh_token)


def open_provider(profile: Profile) -> Provider:
    """Return the issuer of the profile's federated credential."""
    service = Client(profile.url, cacert=profile.cacert)
    parameters = exchange.read_sign_in(service, profile.federated)
    return Provider(open_pool(parameters.issuer, profile.cacert), parameters)


def _sign_in_by_browser(provider: Provider) -> Tokens:
    with callback.listen() as server:
        browser.open_address(provider.address(server.attempt))
        code = server.wait()
    return provider.redeem(code, server.attempt)


def _sign_in_by_device(provider: Provider) -> Tokens:
    return provider.sign_in_by_device(
        lambda address, code: output.note(f"Open {address} on any device, and confirm the code {code}.")
    )


def _sign_in_by_paste(provider: Provider) -> Tokens:
    """Sign in with a browser on any machine. At the end, the user pastes the URL that the browser shows."""
    port = 49152 + secrets.randbelow(16384)  # any port, because no server listens: the user pastes the URL
    attempt = Attempt.begin(f"http://127.0.0.1:{port}{callback.PATH}")
    output.note(
        f"Open this address, and sign in:\n{provider.address(attempt)}\n"
        "At the end, the browser shows a page that it cannot load. Copy the address of this page."
    )
    for _ in range(_PASTED):
        pasted = str(click.prompt("Address", err=True))
        if code := attempt.code_of(pasted.strip().partition("?")[2].partition("#")[0]):
            return provider.redeem(code, attempt)
        output.note("This address does not belong to this sign-in.")
    raise CommandError("None of the pasted URLs belongs to this sign-in: begin again.", NOT_SIGNED_IN)
