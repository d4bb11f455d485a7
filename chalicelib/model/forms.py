"""The table of stored forms: of each kind and each module the class that says what is stored, and what events tell.

A form is imported when it is first asked for: it may stand above `changes`, which asks. Of what is not here events tell
nothing.
"""

from collections.abc import Mapping
from importlib import import_module

from chalicelib.model import kinds
from chalicelib.model.kinds import Kind
from chalicelib.model.records import Stored

_NOT_AUDITED = "records.Stored"
_KINDS: Mapping[Kind, str] = {
    kinds.ACCOUNTS: "accounts.Account",
    kinds.API_KEYS: "api_keys.ApiKey",
    kinds.AUDIT_EVENTS: "audit.Event",
    kinds.BOT_USERS: "accounts.Bot",
    kinds.CERTIFICATE_AUTHORITIES: "tls_certificates.ClientAuthority",
    kinds.HTTPS_EDGES: "edges.HttpsEdge",
    kinds.HTTPS_EDGE_ROUTES: "edges.Route",
    kinds.HTTP_RESPONSE_BACKENDS: "backends.HttpResponse",
    kinds.RESERVED_ADDRS: "reservations.ReservedAddr",
    kinds.RESERVED_DOMAINS: "reservations.ReservedDomain",
    kinds.SSH_CERTIFICATE_AUTHORITIES: "ssh.authorities.SshAuthority",
    kinds.SSH_CREDENTIALS: "ssh.credentials.SshCredential",
    kinds.SSH_HOST_CERTIFICATES: "ssh.authorities.IssuedCertificate",
    kinds.SSH_REVOCATIONS: "ssh.revocations.Revocation",
    kinds.SSH_USER_CERTIFICATES: "ssh.authorities.IssuedUserCertificate",
    kinds.TCP_EDGES: "edges.Edge",
    kinds.TLS_CERTIFICATES: "tls_certificates.TlsCertificate",
    kinds.TLS_EDGES: "edges.Edge",
    kinds.TUNNELS: "tunnels.EitherTunnel",
    kinds.TUNNEL_GROUPS: "backends.TunnelGroup",
    kinds.USERS: "accounts.User",
    kinds.WEIGHTED_BACKENDS: "backends.Weighted",
}
_MODULES: Mapping[str, str] = {
    "backend": "modules.BackendModule",
    "mutual_tls": "modules.MutualTlsModule",
    "oauth": "modules.OAuthModule",
    "policy": "ssh.policies.PolicyModule",
    "tls_termination": "modules.TlsTerminationModule",
    "traffic_policy": "modules.TrafficPolicyModule",
    "user_agent_filter": "modules.UserAgentModule",
}


def of(kind: Kind) -> type[Stored]:
    """Return the stored form of a kind."""
    return _form(_KINDS.get(kind, _NOT_AUDITED))


def of_module(name: str) -> type[Stored]:
    """Return the stored form of the modules of a name."""
    return _form(_MODULES.get(name, _NOT_AUDITED))


def _form(path: str) -> type[Stored]:
    file, _, name = path.rpartition(".")
    form: type[Stored] = getattr(import_module(f"chalicelib.model.{file}"), name)
    return form
