"""Envoy's errors, without what other accounts may not see. Pure."""

import re
from collections.abc import Iterable

from chalicelib.model.edges import edge_status

_ID = re.compile(r"\b[a-z]+_[0-9A-Za-z]{27}\b", flags=re.ASCII)
_FILE = re.compile(r"(?<![\w.:/])(?:/[\w.@~+-]+){2,}/?")
_LEAD = re.compile(r"^Error adding/updating \S+ \S+: ")


def redact(sentence: str, own_ids: Iterable[str]) -> str:
    """Return an error of Envoy without file names, and without ids except an edge's own ones."""
    allowed = frozenset(own_ids)
    text = _LEAD.sub("", " ".join(sentence.split()))
    text = _ID.sub(lambda found: found[0] if found[0] in allowed else "…", _FILE.sub("a file", text))
    return "".join(letter for letter in text if letter.isprintable())[: edge_status.MAX_ERROR]
