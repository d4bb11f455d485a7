"""The table of resource kinds: their id prefixes, paths, names, stored types, and the fields that refer to them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from chalicelib import ids
from chalicelib.model.base.records import Stored
from chalicelib.storage.records.items import Item


@dataclass(frozen=True)
class Kind:
    """A kind of resource. `prefix` is the prefix of its ids, or a regular expression for several prefixes.

    `path` is the API path of its list, or "". `name` names one resource, `array` is the list's JSON field. `stored` is
    the dotted path of its stored type, the class that decodes its records. The class is imported at its first use,
    because its file may import this table. `named_by` are the fields of requests that can contain the id of such a
    resource. A kind that is not `served` has no path in the API.
    """

    prefix: str
    path: str = ""
    name: str = ""
    array: str = ""
    stored: str = ""
    named_by: tuple[str, ...] = ()
    served: bool = True
    # the variable for a resource's id in paths, for example edge_id in /edges/https/{edge_id}. API Gateway allows one
    # name at each position of a path, so a kind uses the same name as the paths of its child kinds
    variable: str = "id"
    is_shown_in_parent: bool = False  # a response shows the resource in its parent, so a change raises both revisions
    lets_edge_act: bool = False  # the edge can write audit events for accounts with a resource of this kind

    def has(self, id: str) -> bool:
        """Return whether a text has the form of an id of this kind."""
        return self._pattern.fullmatch(id) is not None

    def is_covered_by(self, other: "Kind") -> bool:
        """Return whether the `prefix` of another kind is a regular expression that also matches this kind's prefix."""
        return other is not self and re.fullmatch(other.prefix, self.prefix) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(ids.pattern(self.prefix), flags=re.ASCII)

    @property
    def may_be_elsewhere(self) -> bool:
        """Return whether a resource of this kind can exist only in another system, without a record in the table.

        This can be so for edges and routes.
        """
        return self.path.startswith("/edges/")

    @cached_property
    def noun(self) -> str:
        """Return the name of the kind in snake case, for example ssh_certificate_authority."""
        return self.name.lower().replace(" ", "_")

    @cached_property
    def item_path(self) -> str:
        """Return the path of one resource, for example /api_keys/{id}."""
        return f"{self.path}/{{{self.variable}}}"

    @cached_property
    def parent(self) -> "Kind | None":
        """Return the parent kind, for example HTTPS edges for routes, or None."""
        return next((kind for kind in TABLE if kind.path and self.path.startswith(f"{kind.item_path}/")), None)

    @cached_property
    def stored_type(self) -> type[Stored]:
        """Return the class that decodes records of this kind, or Stored if `stored` is empty."""
        return _type(self.stored) if self.stored else Stored


EDGE = "edge"  # the partition keys of internal records contain this word instead of an account's id

_BACKEND = ("backend_id", "backends")
_OWNER = ("owner_id",)

USERS = Kind("usr", "/users", "user", "users", "chalicelib.model.accounts.accounts.User", _OWNER)
API_KEYS = Kind("ak", "/api_keys", "API key", "keys", "chalicelib.model.accounts.api_keys.ApiKey")
BOT_USERS = Kind("bot", "/bot_users", "bot user", "bot_users", "chalicelib.model.accounts.accounts.Bot", _OWNER)
CERTIFICATE_AUTHORITIES = Kind(
    "ca",
    "/certificate_authorities",
    "certificate authority",
    "certificate_authorities",
    "chalicelib.model.tls.tls_certificates.ClientAuthority",
    ("certificate_authority_ids",),
)
FEDERATED_CREDENTIALS = Kind(
    "fcred",
    "/federated_credentials",
    "federated credential",
    "federated_credentials",
    "chalicelib.model.accounts.federated_credentials.FederatedCredential",
)
HTTP_RESPONSE_BACKENDS = Kind(
    "bkdhr",
    "/backends/http_response",
    "HTTP response backend",
    "backends",
    "chalicelib.model.edges.backends.HttpResponse",
    _BACKEND,
)
IP_POLICIES = Kind(
    "ipp",
    "/ip_policies",
    "IP policy",
    "ip_policies",
    "chalicelib.model.edges.ip_policies.IpPolicy",
    ("ip_policy_id", "ip_policy_ids"),
)
IP_POLICY_RULES = Kind(
    "ipr",
    "/ip_policy_rules",
    "IP policy rule",
    "ip_policy_rules",
    "chalicelib.model.edges.ip_policies.IpPolicyRule",
)
SSH_CERTIFICATE_AUTHORITIES = Kind(
    "sshca",
    "/ssh_certificate_authorities",
    "SSH certificate authority",
    "ssh_certificate_authorities",
    "chalicelib.model.ssh.authorities.SshAuthority",
    ("ssh_certificate_authority_id",),
)
SSH_REVOCATIONS = Kind(
    "sshrv",
    "/ssh_certificate_authorities/{id}/revocations",
    "SSH revocation",
    "revocations",
    "chalicelib.model.ssh.revocations.Revocation",
    variable="revocation_id",
)
SSH_CREDENTIALS = Kind(
    "sshcr",
    "/ssh_credentials",
    "SSH credential",
    "ssh_credentials",
    "chalicelib.model.ssh.credentials.SshCredential",
    lets_edge_act=True,
)
SSH_HOST_CERTIFICATES = Kind(
    "shcrt",
    "/ssh_host_certificates",
    "SSH host certificate",
    "ssh_host_certificates",
    "chalicelib.model.ssh.authorities.IssuedCertificate",
)
SSH_USER_CERTIFICATES = Kind(
    "sucrt",
    "/ssh_user_certificates",
    "SSH user certificate",
    "ssh_user_certificates",
    "chalicelib.model.ssh.authorities.IssuedUserCertificate",
    lets_edge_act=True,
)
TLS_CERTIFICATES = Kind(
    "cert",
    "/tls_certificates",
    "TLS certificate",
    "tls_certificates",
    "chalicelib.model.tls.tls_certificates.TlsCertificate",
    ("certificate_id",),
)
TUNNEL_GROUPS = Kind(
    "bkdtg",
    "/backends/tunnel_group",
    "tunnel group backend",
    "backends",
    "chalicelib.model.edges.backends.TunnelGroup",
    _BACKEND,
)
TUNNELS = Kind(
    "tn", "/tunnels", "tunnel", "tunnels", "chalicelib.model.tunnels.tunnels.EitherTunnel", lets_edge_act=True
)
WEIGHTED_BACKENDS = Kind(
    "bkdwd", "/backends/weighted", "weighted backend", "backends", "chalicelib.model.edges.backends.Weighted", _BACKEND
)
HTTPS_EDGES = Kind(
    "edghts",
    "/edges/https",
    "HTTPS edge",
    "https_edges",
    "chalicelib.model.edges.edges.HttpsEdge",
    ("edge_id",),
    variable="edge_id",
)
HTTPS_EDGE_ROUTES = Kind(
    "edghtsrt",
    "/edges/https/{edge_id}/routes",
    "HTTPS edge route",
    "routes",
    "chalicelib.model.edges.edges.Route",
    is_shown_in_parent=True,
)
AUDIT_EVENTS = Kind("evt", "/audit_events", "audit event", "audit_events", "chalicelib.model.audit.trail.Event")
RESERVED_DOMAINS = Kind(
    "rd",
    "/reserved_domains",
    "reserved domain",
    "reserved_domains",
    "chalicelib.model.names.reservations.ReservedDomain",
    lets_edge_act=True,
)
RESERVED_ADDRS = Kind(
    "ra", "/reserved_addrs", "reserved address", "reserved_addrs", "chalicelib.model.names.reservations.ReservedAddr"
)
TLS_EDGES = Kind("edgtls", "/edges/tls", "TLS edge", "tls_edges", "chalicelib.model.edges.edges.Edge")
TCP_EDGES = Kind("edgtcp", "/edges/tcp", "TCP edge", "tcp_edges", "chalicelib.model.edges.edges.Edge")

# Kinds of resources without paths in the API. Their ids occur in responses, or in the operator's commands.
ACCOUNTS = Kind("acct", name="account", stored="chalicelib.model.accounts.accounts.Account", served=False)
ENDPOINTS = Kind("ep", served=False)
TUNNEL_SESSIONS = Kind("ts", served=False)
# Backends that exist only in other systems. The regular expression matches the prefixes of all their ids.
OTHER_BACKENDS = Kind("bkd[a-z]*", "/backends", named_by=_BACKEND)

EDGES = (HTTPS_EDGES, TLS_EDGES, TCP_EDGES)

TABLE: tuple[Kind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Kind))

_MODULES_OF_EDGES = "chalicelib.model.edges.modules"  # the package of the modules of edges, routes and reservations
_OTHER_MODULES: Mapping[str, str] = {  # the stored types of modules outside _MODULES_OF_EDGES, by name
    "api_key_rules": "chalicelib.model.accounts.key_rules.ApiKeyRules",
    "policy": "chalicelib.model.ssh.policies.PolicyModule",
}

MODULES = frozenset(
    {*_OTHER_MODULES, *(module.name for module in iter_modules([str(Path(__file__).parents[1] / "edges" / "modules")]))}
)

_BY_PREFIX = {kind.prefix: kind for kind in TABLE}
_BY_PATH = {kind.path: kind for kind in TABLE if kind.path}


class UnknownKind(LookupError):
    """The prefix of an id belongs to no kind of resource."""


def is_internal(scope: str) -> bool:
    """Return whether a partition key `scope` belongs to internal records, which no account sees."""
    return scope.startswith(f"{EDGE}#")


def identify(id: str) -> Kind:
    """Return the kind of resource that an id belongs to. Raises UnknownKind."""
    prefix = id.partition("_")[0]
    if kind := _BY_PREFIX.get(prefix):
        return kind
    if prefix.startswith("bkd"):
        return OTHER_BACKENDS
    raise UnknownKind(prefix)


def identify_item(item: Item) -> Kind | None:
    """Return the kind of an item, or None for an internal record. Raises UnknownKind."""
    return None if is_internal(item.scope) else identify(item.id)


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id of any kind."""
    try:
        return identify(text).has(text)
    except UnknownKind:
        return False


def find_by_path(path: str) -> Kind | None:
    """Return the kind of the resources that the API lists at `path`, or None."""
    return _BY_PATH.get(path)


def list_by_field(field: str) -> tuple[Kind, ...]:
    """Return the kinds that a field can refer to, for example users and bots for `owner_id`."""
    return tuple(kind for kind in TABLE if field in kind.named_by)


def find_module_type(name: str) -> type[Stored]:
    """Return the class that decodes a module's records, Stored for an unknown name."""
    if name in _OTHER_MODULES:
        return _type(_OTHER_MODULES[name])
    if name not in MODULES:
        return Stored
    stored: type[Stored] = import_module(f"{_MODULES_OF_EDGES}.{name}").MODULE.stored
    return stored


@cache
def _type(path: str) -> type[Stored]:
    file, _, name = path.rpartition(".")
    stored: type[Stored] = getattr(import_module(file), name)
    return stored
