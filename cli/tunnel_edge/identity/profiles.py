"""Profiles: which service and account a command uses. They contain no secret."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tunnel_edge.errors import USAGE, CommandError
from tunnel_edge.identity import files

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Profile:
    """A profile of `config.toml`. `storage` is `keyring`, `file`, or "" if no token is stored."""

    name: str
    url: str = ""
    account: str = ""
    owner: str = ""
    federated: str = ""
    authority: str = ""
    principals: tuple[str, ...] = ()
    lifetime: int = 0
    confirm: bool = False
    uses_files: bool = False
    authority_key: str = ""  # the public key of the authority, to find its certificates in the agent
    storage: str = ""
    cacert: str = ""


def config_file() -> Path:
    """Return the path of the file with all profiles."""
    return files.config_folder() / "config.toml"


def choose_name(flag: str = "") -> str:
    """Return the name of the profile: from the flag, `TE_PROFILE`, or `config.toml`, or else `default`."""
    name = flag or os.environ.get("TE_PROFILE") or _read().get("default") or DEFAULT
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} is not a name for a profile: use up to 64 letters, digits, hyphens and underscores.", USAGE
        )
    return name


def load(name: str) -> Profile | None:
    """Return the profile with a name. Return None if there is none."""
    stored = _profiles(_read()).get(name)
    return None if stored is None else _decode(name, stored)


def load_all() -> list[Profile]:
    """Return all profiles, by name."""
    return [_decode(name, stored) for name, stored in sorted(_profiles(_read()).items())]


def save(profile: Profile) -> None:
    """Store a profile, or replace it. The first profile becomes the default."""
    content = _read()
    profiles = {**_profiles(content), profile.name: _encode(profile)}
    _write(str(content.get("default") or profile.name), profiles)


def _read() -> Mapping[str, Any]:
    """Return the content of `config.toml`, or an empty one if there is no file. Raises CommandError."""
    import tomllib

    file = config_file()
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} is not valid TOML: {error}. Correct it or remove it.") from error


def _profiles(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    tables = content.get("profiles", {})
    entries = tables.items() if isinstance(tables, dict) else ()
    return {name: table for name, table in entries if isinstance(table, dict)}


def _decode(name: str, stored: Mapping[str, Any]) -> Profile:
    """Return a profile from its table in `config.toml`. Raises CommandError for unknown fields and wrong types."""
    values: dict[str, Any] = {}
    defaults = {field.name: field.default for field in fields(Profile)}
    for key, value in stored.items():
        value = tuple(value) if isinstance(value, list) else value
        if key not in defaults or key == "name" or type(value) is not type(defaults[key]):
            raise CommandError(
                f"{config_file()}: '{key}' of the profile '{name}' is unknown or has the wrong type: remove this key."
            )
        values[key] = value
    return Profile(name, **values)


def _encode(profile: Profile) -> dict[str, Any]:
    """Return the fields of a profile that differ from their defaults."""
    return {
        field.name: getattr(profile, field.name)
        for field in fields(Profile)
        if field.name != "name" and getattr(profile, field.name) != field.default
    }


def _write(default: str, profiles: Mapping[str, Mapping[str, Any]]) -> None:
    lines = [f"default = {_toml(default)}"]
    for name, values in sorted(profiles.items()):
        lines += ["", f"[profiles.{name}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    files.write_private(config_file(), ("\n".join(lines) + "\n").encode())


def _toml(value: Any) -> str:
    """Return a value as TOML, which writes strings, lists, integers and booleans as JSON does."""
    import json

    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
