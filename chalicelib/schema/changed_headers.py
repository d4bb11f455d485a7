"""Fields of modules that change headers: which ones they add, and which ones they remove."""

from typing import Annotated, TypeVar

from chalicelib.model.edges.headers import header_changes
from chalicelib.model.edges.headers.header_changes import MAX_CHANGES, MAX_NAME, MAX_VALUE
from chalicelib.schema.rules import After, entries, if_null, max_encoded

N = TypeVar("N", bound=str)
NAME_SCHEMA = {"pattern": f"^{header_changes.NAME}$"}
_MAX_ENCODED = 3072  # the most characters of the headers in a response, as `max_encoded` counts them
_Value = Annotated[
    str, After(header_changes.check_value, {"maxLength": MAX_VALUE, "pattern": f"^{header_changes.VALUE}$"})
]
_ONCE = After(header_changes.check_once)

Added = Annotated[dict[N, _Value], entries(0, MAX_CHANGES), _ONCE, max_encoded(_MAX_ENCODED), if_null({})]
Removed = Annotated[list[N], entries(0, MAX_CHANGES), _ONCE, if_null([])]
ADDED = f"""Headers to add, by name: names of at most {MAX_NAME} characters, values of at most {MAX_VALUE:,}.
    Together they have at most {_MAX_ENCODED:,} characters as JSON in ASCII, with each quote and backslash counted
    twice."""
