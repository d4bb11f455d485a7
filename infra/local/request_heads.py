"""The checks of request heads that RFC 9112 requires and Python's parser lacks.

If two servers parse a head differently, an attacker can smuggle a request past the first one.
"""

import re
from collections import Counter
from collections.abc import Sequence

from chalicelib.http import auth, messages

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST = re.compile(rb"%b [!-~\x80-\xff]+ HTTP/1\.[01]\r\n" % _TOKEN)
# RFC 9112 forbids white space before the colon, and a field on several lines
_FIELD = re.compile(rb"(%b):[ \t]*([\t -~\x80-\xff]*)\r\n" % _TOKEN)
_SINGLE = ("Authorization", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "Transfer-Encoding")


def find_fault(request_line: bytes, lines: Sequence[bytes]) -> str:
    """Return the fault of a request head, or "".

    `lines` are the header lines, including the empty one at the end.
    """
    fields = [_FIELD.fullmatch(line) for line in lines[:-1]]
    if not _REQUEST.fullmatch(request_line):
        return "Bad request line"
    if not all(fields) or [*lines[-1:]] != [b"\r\n"]:
        return "Bad header line"
    named = [(field[1].decode().lower(), field[2].decode("latin-1").rstrip(" \t")) for field in fields if field]
    count = Counter(name for name, _ in named)
    for name in dict.fromkeys([*_SINGLE, *auth.version_headers()]):
        if count[name.lower()] > 1:
            return f"The header {name} occurs twice"
    host = dict(named).get("host")
    if host is None and request_line.endswith(b"1.1\r\n"):
        return "The header Host is missing"
    return "" if host is None or messages.is_host(host) else "The header Host must be host or host:port"
