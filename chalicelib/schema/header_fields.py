"""Names of request headers that visitors of an edge or reserved domain may send."""

import re
from typing import Annotated

from chalicelib.schema.rules import After, entries, if_null

_FORM = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}"
# Rejected names: the edge sets or acts on these headers, or programs read them as environment variables (httpoxy).
_FORBIDDEN = (
    "x-forwarded-.*|forwarded|x-envoy-.*|tunnel-auth-.*|proxy"
    "|connection|host|te|upgrade|transfer-encoding|content-length"
)


def _normalize(name: str) -> str:
    if not re.fullmatch(_FORM, name):
        raise ValueError("must be the name of a header, of 64 characters at most")
    lower = name.lower()
    if re.fullmatch(_FORBIDDEN, re.sub("[^a-z0-9]", "-", lower)):
        raise ValueError("must not be a connection header, Proxy, Forwarded, X-Forwarded-…, X-Envoy-… or Tunnel-Auth-…")
    return lower


def _remove_duplicates(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


KeepHeaders = Annotated[
    list[Annotated[str, After(_normalize, {"pattern": f"^{_FORM}$"})]],
    entries(0, 20),
    After(_remove_duplicates),
    if_null([]),
]
