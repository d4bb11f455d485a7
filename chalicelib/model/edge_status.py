"""What the live edge has made of an edge: written by each edge host where it changes, read by the API."""

from dataclasses import dataclass
from typing import Literal

State = Literal["waiting", "live", "partly", "refused", "unproved"]


@dataclass(frozen=True)
class HostportStatus:
    """A hostport. `since` is when its state began, RFC 3339; `error` a sentence, "" where there is none.

    `certificate_id` is "" under the operator's certificate, `not_after` the end of either.
    """

    hostport: str
    state: State
    since: str
    error: str = ""
    certificate_id: str = ""
    not_after: str = ""


@dataclass(frozen=True)
class RouteStatus:
    """A route of an HTTPS edge."""

    id: str
    state: State
    since: str
    error: str = ""


@dataclass(frozen=True)
class BackendStatus:
    """A backend that the edge leads to, and how many tunnels stand behind it."""

    backend_id: str
    tunnels: int


@dataclass(frozen=True)
class EdgeStatus:
    """What one edge host serves of an edge: of its `revision`, since `at`."""

    state: State
    revision: int
    at: str
    hostports: tuple[HostportStatus, ...] = ()
    routes: tuple[RouteStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()
