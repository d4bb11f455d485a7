"""The operator's setting OAUTH_ENDPOINTS: a JSON file that replaces endpoints of providers.

Accounts cannot change endpoints.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge.process.settings import SettingError
from edge.sign_in.provider import provider_table
from edge.sign_in.provider.provider_table import PROVIDERS, Provider

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def read(file: str) -> dict[str, Provider]:
    """Return the providers. Raises SettingError, OSError.

    If `file` is not "", the endpoints in this file replace the usual endpoints.
    """
    if not file:
        return dict(PROVIDERS)
    try:
        content = json.loads(Path(file).read_text())
    except ValueError:
        raise SettingError(f"OAUTH_ENDPOINTS names {file}, which is not valid JSON: correct it.") from None
    return provider_table.with_endpoints(_check(content))


def _check(content: Any) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(content, dict):
        raise SettingError(
            f"The file of OAUTH_ENDPOINTS must be a JSON object with providers as keys: {', '.join(PROVIDERS)}."
        )
    for name, endpoints in content.items():
        if name not in PROVIDERS or not isinstance(endpoints, dict):
            names = ", ".join(PROVIDERS)
            raise SettingError(
                f"OAUTH_ENDPOINTS: {name} must be one of the providers {names}, and its value must be an object."
            )
        keys = {"authorize", "token", "api"} if name == "github" else {"authorize", "token", "userinfo", "issuer"}
        for key, url in endpoints.items():
            if key not in keys:
                raise SettingError(f"OAUTH_ENDPOINTS: {name} has no endpoint {key}: use {', '.join(sorted(keys))}.")
            if not _is_allowed(url):
                raise SettingError(
                    f"OAUTH_ENDPOINTS: {name}.{key} must be an https URL, or http on a loopback address."
                )
    return content


def _is_allowed(url: object) -> bool:
    if not isinstance(url, str):
        return False
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    return bool(parts.hostname) and (parts.scheme == "https" or is_local)
