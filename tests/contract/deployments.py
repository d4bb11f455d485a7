"""A deployment that is tried at its address: what it says of itself, or one sentence that ends the run."""

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest

from chalicelib.http import auth


@dataclass(frozen=True)
class Deployment:
    """A deployment as its stack's parameters made it: the beginning of its uris, and the header of the version."""

    base_url: str
    version_header: str


def ask(url: str, key: str) -> Deployment:
    """Read a deployment's document; end the run where it does not answer or refuses the key."""
    if not url.startswith(("http://", "https://")):
        pytest.exit(f"{url} is no URL: it must begin with https:// or http://.", 1)
    answer = _get(f"{url}/openapi.json", {})
    try:
        document = answer.json()
        base_url, header = document["servers"][0]["url"], document["components"]["parameters"]["Version"]["name"]
    except (LookupError, TypeError, ValueError):
        pytest.exit(f"{url}/openapi.json answers {answer.status_code} and is no document of this API.", 1)
    answer = _get(f"{url}/api_keys?limit=1", {"Authorization": f"Bearer {key}", header: auth.VERSIONS[0]})
    if answer.status_code != 200:
        pytest.exit(f"The API at {url} does not let the API key in: {answer.status_code} {answer.text[:500]}", 1)
    return Deployment(_base_url(url, base_url), header)


def _get(url: str, headers: dict[str, str]) -> httpx.Response:
    try:  # with the certificates that the suite's own connection trusts, and as directly
        return httpx.get(url, headers=headers, timeout=60, trust_env=False, verify=ssl.create_default_context())
    except (httpx.TransportError, httpx.InvalidURL) as error:
        pytest.exit(f"{url} does not answer: {error}.", 1)


def _base_url(url: str, document_url: str) -> str:
    """Return the base URL that the document names if that is at another host, else the URL that is tried."""
    return url if urlsplit(document_url).netloc == urlsplit(url).netloc else document_url
