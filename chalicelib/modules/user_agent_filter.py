"""The user agent filter of HTTPS edge routes (SPEC 2.9): RE2 patterns, since they run on live traffic."""

from typing import Annotated

import re2
from pydantic import AfterValidator, Field

from chalicelib.api.fields import if_null, max_bytes
from chalicelib.api.module import Enabled, Module

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # which would write the caller's pattern to the log
_OPTIONS.max_mem = 1024 * 1024  # else the worst 200 patterns would take longer to compile than the gateway waits


def _compiles(pattern: str) -> str:
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise ValueError(f"must be a regular expression as RE2 reads it: {_reason(error)}") from None
    return pattern


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


Pattern = Annotated[str, AfterValidator(_compiles), max_bytes(512)]
# All patterns together fit into the item beside an OAuth module as large as a body may be.
Patterns = Annotated[list[Pattern], Field(max_length=100), if_null([])]


class UserAgentFilter(Enabled):
    allow: Patterns = []
    deny: Patterns = []


USER_AGENT_FILTER = Module(path="/edges/https/{edge_id}/routes/{id}/user_agent_filter", shape=UserAgentFilter)
