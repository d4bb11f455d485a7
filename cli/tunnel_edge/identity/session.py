"""The service and the token that a command uses: from flags, the environment, or the profile."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tunnel_edge.api.client import ATTEMPTS, Client
from tunnel_edge.errors import NOT_SIGNED_IN, USAGE, CommandError
from tunnel_edge.identity import exchange, locks, profiles, store
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.identity.store import Secret

_RENEWED = 0.1  # the share of a token's lifetime: the token is renewed if less than this share is left


@dataclass(frozen=True)
class Session:
    """A profile, with a client for its service. `storage` describes where the token is stored.

    `may_fork` is true if a child process may use the token, because it does not expire soon and is in no keyring.
    """

    profile: Profile
    client: Client
    storage: str = ""
    # Requests an SSH user certificate with the OIDC token of a pipeline. If `sign` is None, the API key is used.
    sign: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    may_fork: bool = False


class Token:
    """The API key (token) of this process.

    `obtain` is called for a new key if the present key is missing, expires soon, or is rejected by the service.
    """

    def __init__(self, secret: Secret | None, obtain: Callable[[Secret | None], Secret | None]) -> None:
        self._secret, self._obtain = secret, obtain

    @property
    def ends_soon(self) -> bool:
        """Return whether there is no token, or less than a tenth of its lifetime is left."""
        return _share_left(self._secret) < _RENEWED

    def current(self) -> str:
        """Return the token. If it expires soon, renew it.

        If the renewal fails, return the old token while it is valid.
        """
        share = _share_left(self._secret)
        if share < _RENEWED:
            try:
                self._secret = self._obtain(self._secret) or self._secret
            except CommandError:
                if share <= 0:
                    raise
        if self._secret is None:
            raise CommandError("You are not signed in: use te login URL.", NOT_SIGNED_IN)
        return self._secret.token

    def renew(self) -> str:
        """Return a new token after the service rejected the old one. Return "" if none can be obtained."""
        self._secret = self._obtain(self._secret)
        return self._secret.token if self._secret else ""


def open_session(name: str = "", timeout: float = 30.0, attempts: int = ATTEMPTS, *, may_ask: bool = True) -> Session:
    """Return the session of a profile, or of environment variables.

    If `may_ask`, a browser may open to renew the token.
    """
    profile = load_profile(name)
    profile = replace(profile, url=_url(profile))
    sign = None
    token_text = os.environ.get("TE_TOKEN")
    if token_text:
        token, storage = Token(Secret(token_text), lambda _: None), "TE_TOKEN"
    elif federated := os.environ.get("TE_FEDERATED"):
        token, storage = Token(None, lambda _: obtain_ambient(profile, federated)), "memory"
        sign = partial(sign_ambient, profile, federated)
    else:
        token = Token(_load_secret(profile), lambda secret: renew(profile, secret, may_ask=may_ask))
        storage = store.location(profile.name, profile.storage)
    client = Client(profile.url, token.current, token.renew, profile.cacert, timeout, attempts)
    is_in_keyring = not token_text and profile.storage == store.KEYRING
    return Session(profile, client, storage, sign, may_fork=not (token.ends_soon or is_in_keyring))


def open_public(name: str = "") -> Client:
    """Return a client that sends no token."""
    profile = load_profile(name)
    return Client(os.environ.get("TE_URL") or profile.url, cacert=profile.cacert)


def load_profile(name: str = "") -> Profile:
    """Return the chosen profile. If no profile is stored, return an empty one.

    Raises CommandError for an unknown name.
    """
    chosen = profiles.choose_name(name)
    profile = profiles.load(chosen)
    if profile is None and (name or os.environ.get("TE_PROFILE")):
        raise CommandError(f"There is no profile '{chosen}': te profiles lists them.", USAGE)
    return profile or Profile(chosen)


def obtain_ambient(profile: Profile, federated: str) -> Secret:
    """Exchange the OIDC token of the pipeline for an API key, which is never stored."""
    return exchange.exchange(Client(profile.url, cacert=profile.cacert), federated, _ambient(federated))


def sign_ambient(profile: Profile, federated: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Exchange the OIDC token of the pipeline for a user certificate."""
    client = Client(profile.url, cacert=profile.cacert)
    return exchange.exchange_for_certificate(client, federated, _ambient(federated), body)


def _ambient(federated: str) -> str:
    """Return the OIDC token of the pipeline. Raises CommandError if there is none."""
    token = exchange.ambient_token(federated)
    if token is None:
        raise CommandError(
            "TE_FEDERATED is set, but no pipeline provides an OIDC token: set TE_ID_TOKEN, or unset TE_FEDERATED.",
            NOT_SIGNED_IN,
        )
    return token


def renew(profile: Profile, secret: Secret | None, *, may_ask: bool) -> Secret | None:
    """Obtain and store a new API key. Return it, or None if the profile has no federated credential."""
    if not profile.federated or not profile.storage:
        return None
    with locks.hold(f"token-{profile.name}"):
        stored = _load_secret(profile)  # another process may have renewed the token while this one waited for the lock
        return stored if stored and stored != secret else _renew(profile, secret, may_ask=may_ask)


def _renew(profile: Profile, secret: Secret | None, *, may_ask: bool) -> Secret:
    """Sign in again, and store the new API key."""
    from tunnel_edge.identity import browser, sign_in

    if secret and secret.refresh_token:
        tokens = sign_in.refresh(profile, secret.refresh_token)
    elif may_ask and browser.is_allowed():
        tokens = sign_in.obtain(profile, sign_in.SignInMethod.BROWSER)
    else:
        raise CommandError("The sign-in has ended: sign in again with te login.", NOT_SIGNED_IN)
    renewed = exchange.exchange(Client(profile.url, cacert=profile.cacert), profile.federated, tokens.id_token)
    renewed = replace(renewed, refresh_token=tokens.refresh_token)
    store.save(profile.name, profile.storage, renewed)
    return renewed


def _url(profile: Profile) -> str:
    """Return the address of the service. Raises CommandError if a stored token would be sent to another service."""
    url = os.environ.get("TE_URL") or profile.url
    is_given = os.environ.get("TE_TOKEN") or os.environ.get("TE_FEDERATED")
    if profile.url and url.rstrip("/") != profile.url and not is_given:
        raise CommandError(
            f"TE_URL is {url}, but the token of the profile '{profile.name}' is only for {profile.url}: unset TE_URL, "
            "or set TE_TOKEN to a token for TE_URL.",
            NOT_SIGNED_IN,
        )
    return url


def _load_secret(profile: Profile) -> Secret | None:
    return store.load(profile.name, profile.storage) if profile.storage else None


def _share_left(secret: Secret | None) -> float:
    """Return which share of a token's lifetime is left, or 1 if its expiry is unknown."""
    if secret is None:
        return 0.0
    if not secret.expires_at or not secret.lifetime.isdigit():
        return 1.0
    remaining = datetime.fromisoformat(secret.expires_at) - datetime.now(UTC)
    return remaining.total_seconds() / max(1, int(secret.lifetime))
