"""The service and the token that a command uses: from flags, the environment, or the profile."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from tunnel_edge.api.client import ATTEMPTS, Client
from tunnel_edge.errors import NOT_SIGNED_IN, USAGE, CommandError
from tunnel_edge.identity import profiles, store
from tunnel_edge.identity.profiles import Profile
from tunnel_edge.identity.store import Secret


@dataclass(frozen=True)
class Session:
    """A profile with a client for its service. `storage` names the place of the token for people."""

    profile: Profile
    client: Client
    storage: str = ""


@dataclass
class Token:
    """The token of this process. `obtain` is called when it is missing, ends soon, or is rejected."""

    value: str = ""
    obtain: Callable[[], str] = field(default=str)

    def current(self) -> str:
        """Return the token, and obtain one first if there is none."""
        self.value = self.value or self.obtain()
        if not self.value:
            raise CommandError("You are not signed in: use te login URL.", NOT_SIGNED_IN)
        return self.value

    def renewed(self) -> str:
        """Return a new token after a rejection, "" if none can be obtained."""
        self.value = self.obtain() or self.value
        return self.value


def open_session(name: str = "", timeout: float = 30.0, attempts: int = ATTEMPTS) -> Session:
    """Return the session of a profile, or of the environment. Raises CommandError if there is no token."""
    profile = load_profile(name)
    url = os.environ.get("TE_URL") or profile.url
    if given := os.environ.get("TE_TOKEN"):
        token, storage = Token(given), "TE_TOKEN"
    else:
        _require_same_service(profile, url)
        secret = _stored(profile)
        token, storage = Token(secret.token if secret else ""), store.location(profile.name, profile.storage)
    return Session(profile, Client(url, token.current, token.renewed, profile.cacert, timeout, attempts), storage)


def open_public(name: str = "") -> Client:
    """Return a client that sends no token."""
    profile = load_profile(name)
    return Client(os.environ.get("TE_URL") or profile.url, cacert=profile.cacert)


def load_profile(name: str = "") -> Profile:
    """Return the chosen profile, an empty one if none is stored. Raises CommandError for an unknown name."""
    chosen = profiles.chosen_name(name)
    found = profiles.load(chosen)
    if found is None and (name or os.environ.get("TE_PROFILE")):
        raise CommandError(f"There is no profile '{chosen}': te profiles lists them.", USAGE)
    return found or Profile(chosen)


def _require_same_service(profile: Profile, url: str) -> None:
    """Raise CommandError if the token of a profile would be sent to another service."""
    if profile.url and url.rstrip("/") != profile.url:
        raise CommandError(
            f"TE_URL is {url}, and the token of the profile '{profile.name}' is for {profile.url} only: set TE_TOKEN.",
            NOT_SIGNED_IN,
        )


def _stored(profile: Profile) -> Secret | None:
    return store.load(profile.name, profile.storage) if profile.storage else None
