"""The one table of kinds: the prefix of their ids, where they are listed, what they are called, what may name them."""

import re
from dataclasses import dataclass
from functools import cached_property

from chalicelib import ids


@dataclass(frozen=True)
class Kind:
    """A kind of thing that has ids.

    `prefix` is that of its ids, or a pattern of such. `path` is that of its list, `name` what one is called, `array`
    the name of the array in its list, `named_by` the fields of bodies that may hold one of its ids. One without an
    array is listed nowhere, and one that is not `served` has no address.
    """

    prefix: str
    path: str = ""
    name: str = ""
    array: str = ""
    named_by: tuple[str, ...] = ()
    served: bool = True
    variable: str = "id"  # of its id in paths: the gateway knows one name for each place in a path
    is_shown_in_parent: bool = False  # then each change of one raises the revision of the parent, too

    def has(self, id: str) -> bool:
        """Tell whether a text has the form of an id of this kind."""
        return self._form.fullmatch(id) is not None

    def is_covered_by(self, other: "Kind") -> bool:
        """Tell whether each id of this kind has the form of an id of another."""
        return other is not self and re.fullmatch(other.prefix, self.prefix) is not None

    @cached_property
    def _form(self) -> re.Pattern[str]:
        return re.compile(ids.pattern(self.prefix), flags=re.ASCII)

    @property
    def may_be_elsewhere(self) -> bool:
        """Tell whether an account may have one that is not registered here: an edge or a route."""
        return self.path.startswith("/edges/")

    @cached_property
    def noun(self) -> str:
        """Return the name in snake case, for example ssh_certificate_authority."""
        return self.name.lower().replace(" ", "_")

    @cached_property
    def one(self) -> str:
        """Return the path of a single one, for example /api_keys/{id}."""
        return f"{self.path}/{{{self.variable}}}"

    @cached_property
    def parent(self) -> "Kind | None":
        """Return the kind beneath whose path this one lies, as routes lie beneath HTTPS edges, or None."""
        return next((kind for kind in TABLE if kind.path and self.path.startswith(f"{kind.one}/")), None)


EDGE = "edge"  # in the place of an account: what the edge keeps for itself, which is of no kind

_BACKEND = ("backend_id", "backends")
_OWNER = ("owner_id",)

USERS = Kind("usr", "/users", "user", "users", _OWNER)  # whom the operator makes
API_KEYS = Kind("ak", "/api_keys", "API key", "keys")
BOT_USERS = Kind("bot", "/bot_users", "bot user", "bot_users", _OWNER)
CERTIFICATE_AUTHORITIES = Kind(
    "ca", "/certificate_authorities", "certificate authority", "certificate_authorities", ("certificate_authority_ids",)
)
HTTP_RESPONSE_BACKENDS = Kind("bkdhr", "/backends/http_response", "HTTP response backend", "backends", _BACKEND)
SSH_CERTIFICATE_AUTHORITIES = Kind(
    "sshca",
    "/ssh_certificate_authorities",
    "SSH certificate authority",
    "ssh_certificate_authorities",
    ("ssh_certificate_authority_id",),
)
SSH_REVOCATIONS = Kind(
    "sshrv",
    "/ssh_certificate_authorities/{id}/revocations",
    "SSH revocation",
    "revocations",
    variable="revocation_id",
)
SSH_CREDENTIALS = Kind("sshcr", "/ssh_credentials", "SSH credential", "ssh_credentials")
SSH_HOST_CERTIFICATES = Kind("shcrt", "/ssh_host_certificates", "SSH host certificate", "ssh_host_certificates")
SSH_USER_CERTIFICATES = Kind("sucrt", "/ssh_user_certificates", "SSH user certificate", "ssh_user_certificates")
TLS_CERTIFICATES = Kind("cert", "/tls_certificates", "TLS certificate", "tls_certificates", ("certificate_id",))
TUNNEL_GROUPS = Kind("bkdtg", "/backends/tunnel_group", "tunnel group backend", "backends", _BACKEND)
TUNNELS = Kind("tn", "/tunnels", "tunnel", "tunnels")
WEIGHTED_BACKENDS = Kind("bkdwd", "/backends/weighted", "weighted backend", "backends", _BACKEND)
HTTPS_EDGES = Kind("edghts", "/edges/https", "HTTPS edge", "https_edges", ("edge_id",), variable="edge_id")
HTTPS_EDGE_ROUTES = Kind(
    "edghtsrt", "/edges/https/{edge_id}/routes", "HTTPS edge route", "routes", is_shown_in_parent=True
)
AUDIT_EVENTS = Kind("evt", "/audit_events", "audit event", "audit_events")
RESERVED_DOMAINS = Kind("rd", "/reserved_domains", "reserved domain", "reserved_domains")
RESERVED_ADDRS = Kind("ra", "/reserved_addrs", "reserved address", "reserved_addrs")
TLS_EDGES = Kind("edgtls", "/edges/tls", "TLS edge", "tls_edges")
TCP_EDGES = Kind("edgtcp", "/edges/tcp", "TCP edge", "tcp_edges")

# Named in responses and by the operator, and served nowhere.
ACCOUNTS = Kind("acct", name="account", served=False)
ENDPOINTS = Kind("ep", served=False)
TUNNEL_SESSIONS = Kind("ts", served=False)
OTHER_BACKENDS = Kind("bkd[a-z]*", "/backends", named_by=_BACKEND)  # provisioned elsewhere: SPEC 2.1 lists some of them

EDGES = (HTTPS_EDGES, TLS_EDGES, TCP_EDGES)

# The table: every kind above.
TABLE: tuple[Kind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Kind))

_BY_PREFIX = {kind.prefix: kind for kind in TABLE}
_BY_PATH = {kind.path: kind for kind in TABLE if kind.path}


class UnknownKind(LookupError):
    """An id has a prefix that no kind has."""


def is_of_the_edge(scope: str) -> bool:
    """Tell whether a scope is one of what the edge keeps for itself."""
    return scope.startswith(f"{EDGE}#")


def of(id: str) -> Kind:
    """Return the kind of an id. Raises UnknownKind."""
    prefix = id.partition("_")[0]
    if kind := _BY_PREFIX.get(prefix):
        return kind
    if prefix.startswith("bkd"):
        return OTHER_BACKENDS
    raise UnknownKind(prefix)


def is_id(text: str) -> bool:
    """Tell whether a text is the id of a kind."""
    try:
        return of(text).has(text)
    except UnknownKind:
        return False


def at(path: str) -> Kind | None:
    """Return the kind that is listed at a path, or None."""
    return _BY_PATH.get(path)


def named_by(field: str) -> tuple[Kind, ...]:
    """Return the kinds whose ids a field may hold, for example users and bots for `owner_id`."""
    return tuple(kind for kind in TABLE if field in kind.named_by)
