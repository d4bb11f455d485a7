"""The records of one account that its loaded names use. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import Place


@dataclass(frozen=True)
class AccountRecords:
    """The records of one account that some names of it use.

    `names` are these names. `reservations` decide about them and may belong to other accounts. `gateways` are the live
    ones. `versions` has every record and list that was read, with a text that changes with it, "" if it is absent.
    """

    account: str
    names: frozenset[str]
    is_active: bool = True
    tunnels: Mapping[str, ServedTunnel] = field(default_factory=dict)
    gateways: Mapping[str, Gateway] = field(default_factory=dict)
    edges: Mapping[str, ServedEdge] = field(default_factory=dict)
    backends: Mapping[str, ServedBackend] = field(default_factory=dict)
    authorities: Mapping[str, ServedAuthority] = field(default_factory=dict)
    certificates: Mapping[str, ServedCertificate] = field(default_factory=dict)
    reservations: tuple[ServedReservation, ...] = ()
    versions: Mapping[Place, str] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)  # Envoy's error by certificate id
