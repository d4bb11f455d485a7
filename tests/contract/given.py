"""A deployment that is tried at its address: what it says of itself."""

from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx


@dataclass(frozen=True)
class Deployment:
    """What its uris begin with, and the header under which it is told the version: parameters of its stack."""

    base_url: str
    version_header: str


def ask(url: str) -> Deployment:
    """What the document of the deployment says."""
    document = httpx.get(f"{url}/openapi.json", timeout=60, trust_env=False).json()
    header = document["components"]["parameters"]["Version"]["name"]
    return Deployment(_base_url(url, document["servers"][0]["url"]), header)


def _base_url(url: str, named: str) -> str:
    """The address it names may be at another host, which need not be there yet; at this one it must be the URL."""
    return url if urlsplit(named).netloc == urlsplit(url).netloc else named
