"""Stores tokens in the keyring of the system, or in a file with mode 0600."""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tunnel_edge.errors import NOT_SIGNED_IN, CommandError
from tunnel_edge.identity import files

KEYRING, FILE = "keyring", "file"


@dataclass(frozen=True)
class Secret:
    """An API key (token) with its id, lifetime and expiry. A `refresh_token` is stored only in a keyring."""

    token: str
    id: str = ""
    lifetime: str = ""  # seconds between the creation of the token and its expiry
    expires_at: str = ""
    refresh_token: str = ""


def choose_storage() -> str:
    """Return the storage for new tokens: the keyring if one works, or else a file."""
    return KEYRING if _keyring() is not None else FILE


def location(profile: str, storage: str) -> str:
    """Return where a profile's token is stored, for messages to the user."""
    return f"keyring, entry te:{profile}" if storage == KEYRING else str(_file(profile))


def load(profile: str, storage: str) -> Secret | None:
    """Return the stored secret of a profile, or None. Raises CommandError."""
    if storage == KEYRING:
        return _decode(_call_keyring("get_password", f"te:{profile}"))
    content = files.read_private(_file(profile))
    return _decode(content.decode("utf-8", "replace") if content is not None else None)


def save(profile: str, storage: str, secret: Secret) -> None:
    """Store the secret of a profile. A file never contains a refresh token."""
    if storage == KEYRING:
        _call_keyring("set_password", f"te:{profile}", json.dumps(asdict(secret)))
    else:
        stored = {**asdict(secret), "refresh_token": ""}
        files.write_private(_file(profile), json.dumps(stored).encode())


def delete(profile: str, storage: str) -> None:
    """Delete the secret of a profile."""
    _file(profile).unlink(missing_ok=True)
    if storage == KEYRING and load(profile, storage) is not None:
        _call_keyring("delete_password", f"te:{profile}")


def _file(profile: str) -> Path:
    return files.state_folder() / "credentials" / profile


def _decode(text: str | None) -> Secret | None:
    """Return a stored secret. Return None if it is unreadable: then the caller obtains a new one."""
    with contextlib.suppress(ValueError, TypeError):
        secret = Secret(**json.loads(text or ""))
        if secret.token and all(isinstance(value, str) for value in asdict(secret).values()):
            return secret
    return None


def _keyring() -> Any:
    """Return the keyring package. Return None if it is not installed, or has no storage on this machine."""
    try:
        import keyring
        from keyring.backends import fail, null

        return None if isinstance(keyring.get_keyring(), fail.Keyring | null.Keyring) else keyring
    except Exception:  # a keyring's backend can raise any error. Such a keyring cannot be used
        return None


def _call_keyring(function: str, entry: str, *values: str) -> Any:
    """Call the keyring. Raises CommandError if it is missing or locked."""
    ring = _keyring()
    if ring is None:
        raise CommandError(
            f"The token is in a keyring ({entry}), and no keyring works here. "
            "Install tunnel-edge-cli[keyring], or sign in again with te login.",
            NOT_SIGNED_IN,
        )
    try:
        return getattr(ring, function)(entry, "token", *values)
    except Exception as error:  # a keyring's backend can raise any error
        raise CommandError(
            f"The keyring did not answer for {entry}: {error}. Unlock the keyring.", NOT_SIGNED_IN
        ) from error
