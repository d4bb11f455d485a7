"""The modules of edges and routes (SPEC 2.9, 4.8): one file each, named as the last segment of its path."""

from chalicelib.api.module import Module
from chalicelib.modules.backend import BACKEND
from chalicelib.modules.mutual_tls import MUTUAL_TLS
from chalicelib.modules.oauth import OAUTH
from chalicelib.modules.tls_termination import TLS_TERMINATION
from chalicelib.modules.traffic_policy import TRAFFIC_POLICY
from chalicelib.modules.user_agent_filter import USER_AGENT_FILTER

ALL: tuple[Module, ...] = (
    OAUTH,
    USER_AGENT_FILTER,
    BACKEND,
    TRAFFIC_POLICY,
    MUTUAL_TLS,
    TLS_TERMINATION,
)


def at(home: str) -> tuple[Module, ...]:
    """The modules of the edges or routes at a path."""
    return tuple(module for module in ALL if module.home == home)
