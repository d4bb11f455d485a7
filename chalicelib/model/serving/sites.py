"""Host names that tunnels serve. Pure."""

from dataclasses import dataclass

from chalicelib.model.tunnels.tunnels import ServedTunnel

OPERATOR = "operator"  # in place of a certificate id: the operator's certificate, also shown for unknown names


@dataclass(frozen=True)
class Site:
    """A host name that a tunnel serves, and the id of its certificate, "" if TLS ends upstream.

    With `refuses_challenges`, no client can validate the name at a certificate authority.
    """

    name: str
    tunnel: ServedTunnel
    certificate: str
    keep_headers: tuple[str, ...] = ()
    refuses_challenges: bool = False
