"""The settings of the edge, from environment variables. The variable of a limit is the limit's name in capitals.

The edge's processes on a host share the folder EDGE_DIR. During a replacement, a host runs two gateways or two Envoys,
which then have different instances ("", a or b).
"""

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

from chalicelib import clock
from edge.process.variables import texts
from edge.process.variables.texts import InvalidText

ADMIN_SOCKET, STATS_SOCKET = "admin.sock", "stats.sock"  # names of Envoy's sockets, in the folder EDGE_DIR
BOOTSTRAP = "bootstrap.json"  # the file that control writes for Envoy's start, in the folder EDGE_DIR
DRAIN_TIMEOUT = "drain_timeout"  # a key in the metadata of BOOTSTRAP: the most seconds that a drain of Envoy takes
INSTANCES = ("", "a", "b")
_LINK_PORTS = 3  # a gateway has a port for Envoy in each stage: stage 0 while it serves, stages 1 and 2 while it drains
_LAST_HOP_PORT = 65535 - 2 * _LINK_PORTS + 1


class SettingError(Exception):
    """The edge cannot run with its settings. The message is one sentence for the operator's terminal."""


@dataclass(frozen=True)
class Limits:
    """The limits of the edge. Times are in seconds."""

    max_tunnels_per_connection: int = 10
    max_tunnels_per_account: int = 100
    max_tunnels_per_gateway: int = 1000
    max_channels_per_tunnel: int = 256
    max_channels_per_account: int = 1024
    max_sessions_per_connection: int = 4
    max_unread_kib: int = 4096
    max_buffer_mib: int = 192
    max_sign_ins: int = 100
    max_sign_ins_per_address: int = 10
    max_sign_ins_per_network: int = 15
    max_penalty: int = 600
    max_sign_in_tries: int = 6
    sign_in_timeout: int = 20
    tunnel_timeout: int = 10
    upstream_timeout: int = 10
    idle_timeout: int = 300
    tcp_idle_timeout: int = 7440  # the shortest idle timeout that RFC 5382 permits a NAT for TCP connections
    header_timeout: int = 15
    min_rate: int = 100
    min_rate_grace: int = 30
    max_header_kib: int = 60
    max_webhook_kib: int = 1024
    max_connections: int = 20_000
    max_handshakes: int = 2000
    max_http_connections: int = 2000
    max_requests_per_visitor: int = 300
    max_connections_per_edge: int = 5000
    max_requests_per_backend: int = 5000
    max_socket_kib: int = 512
    max_heap_mib: int = 2048
    max_loaded_mib: int = 1000
    max_loaded_names_per_wildcard: int = 200
    max_loaded_names_per_account: int = 2000
    max_cold_reads: int = 500
    max_negative_answers: int = 10_000
    max_unknown_names: int = 1000
    name_period: int = 600
    max_connection_duration: int = 3600
    max_oauth_exchanges: int = 200
    oauth_exchange_timeout: int = 10
    oauth_provider_timeout: int = 5
    lease: int = 60
    clock_skew: int = clock.MAX_SKEW
    rights_sweep: int = 900
    drain_timeout: int = 30
    switch_timeout: int = 3
    handover_timeout: int = 10


@dataclass(frozen=True)
class Settings:
    """The addresses on which the edge listens, its domain, and the folders of its files.

    Ports: `tcp_ports` are for TCP tunnels and TCP edges. Envoys on other hosts connect to this gateway at `hop_host`
    and `hop_port`. If `hop_port` is 0, the system chooses a port. The process that `metrics_by` names (control, gateway
    or sign-in) serves Prometheus at `metrics_port`, unless the port is 0. `instance` is one of INSTANCES, and
    distinguishes two gateways or two Envoys of one host.

    Addresses: if `proxy_protocol_from` is set, visitors can connect only through proxies in these networks.
    `ssh_proxy_protocol_from` limits the connections of SSH clients in the same way. The API shows `ssh_address` as the
    address of the gateway. If `ssh_address` is not set, `public_ssh_address` returns a default. `dns_servers` (address,
    port) are queried instead of the name servers of each domain.

    Sign-in and issuer: `oauth_endpoints` is a file with endpoints that replace the usual ones of identity providers.
    The sockets of the sign-in service are in `sign_in_dir`, and the sockets of the issuer in `issuer_dir`. Both are
    `directory` by default. If `sign_in_hosts` (host, port) is set, Envoy uses the sign-in services on these hosts. The
    sign-in service of this host serves Envoys on other hosts at `sign_in_port`, unless the port is 0.
    """

    tunnel_domain: str = "tunnels.localhost"
    host: str = "127.0.0.1"
    ssh_port: int = 2222
    edge_port: int = 8443
    http_port: int = 8080
    hop_host: str = "127.0.0.1"
    hop_port: int = 0
    tcp_ports: range = range(0)
    region: str = "local"
    directory: Path = Path(".local/edge")
    instance: str = ""
    envoy: str = ""
    access_log: str = ""
    abuse_contact: str = ""
    certificate: str = ""
    private_key: str = ""
    dns_servers: tuple[tuple[str, int], ...] = ()
    proxy_protocol_from: tuple[str, ...] = ()
    ssh_proxy_protocol_from: tuple[str, ...] = ()
    ssh_host_key: str = ""
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    metrics_by: str = "control"
    gateway_metrics: str = ""
    link_dir: str = ""
    sign_in_dir: str = ""
    sign_in_hosts: tuple[tuple[str, int], ...] = ()
    sign_in_port: int = 0
    issuer_dir: str = ""
    ssh_address: str = ""
    oauth_endpoints: str = ""
    limits: Limits = field(default_factory=Limits)

    @property
    def discovery_socket(self) -> Path:
        """Return the path of the socket from which Envoy gets its configuration.

        Envoy runs in the folder of the socket, so that its relative path is short enough for the kernel.
        """
        return self.directory / "discovery.sock"

    @property
    def challenge_socket(self) -> Path:
        """Return the path of the socket at which control answers HTTP-01 challenges."""
        return self.directory / "challenges.sock"

    @cached_property
    def access_log_file(self) -> str:
        """Return the path of Envoy's access log, by default an absolute one, because Envoy runs in another folder."""
        return self.access_log or str(self.directory.resolve() / "access.log")

    def own_file(self, name: str) -> Path:
        """Return the path of a file of this instance, such as stats-a.sock for the instance a."""
        return self.list_files(name)[self.instance]

    def list_files(self, name: str) -> Mapping[str, Path]:
        """Return the paths of a file that each instance has separately, by instance ("", a, b)."""
        first = self.directory / name
        return {instance: first.with_stem(f"{first.stem}-{instance}") if instance else first for instance in INSTANCES}

    def link_port(self, stage: int) -> int:
        """Return the gateway's port for Envoy in a stage, or 0 for any free port.

        A gateway serves in stage 0, and drains in the stages 1 and 2.
        """
        before = _LINK_PORTS if self.instance == "b" else 0
        return self.hop_port and self.hop_port + before + stage

    @property
    def gateway_sockets(self) -> Mapping[str, Path]:
        """Return the paths of the gateways' sockets for metrics, by instance."""
        return self.list_files(self.gateway_metrics or "gateway-metrics.sock")

    @property
    def sign_in_host(self) -> str:
        """Return the host to which identity providers redirect visitors."""
        return f"sign-in.{self.tunnel_domain}"

    @property
    def sign_in_socket(self) -> Path:
        """Return the path of the sign-in service's socket for Envoy."""
        return self._folder(self.sign_in_dir) / "sign-in.sock"

    @property
    def sign_in_metrics_socket(self) -> Path:
        """Return the path of the sign-in service's socket for metrics."""
        return self._folder(self.sign_in_dir) / "sign-in-metrics.sock"

    @property
    def issuer_metrics_socket(self) -> Path:
        """Return the path of the issuer's socket for metrics."""
        return self._folder(self.issuer_dir) / "issuer-metrics.sock"

    def link_socket(self, gateway: str) -> Path:
        """Return the path of a gateway's socket for Envoys on the same host."""
        return self._folder(self.link_dir) / f"{gateway}.sock"

    def _folder(self, path: str) -> Path:
        """Return the absolute path of a folder. Return EDGE_DIR for "".

        A relative path would be wrong for Envoy, which runs in another folder.
        """
        return Path(path).resolve() if path else self.directory

    @property
    def public_ssh_address(self) -> str:
        """Return the host and port to which SSH clients connect."""
        if self.ssh_address:
            return self.ssh_address
        try:
            is_local = ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            is_local = self.host == "localhost"
        return f"{'127.0.0.1' if is_local else self.tunnel_domain}:{self.ssh_port}"

    def url(self, name: str, scheme: str = "https") -> str:
        """Return the public URL of a host name. A port other than 443 is part of the URL."""
        return f"{scheme}://{name}" if self.edge_port == 443 else f"{scheme}://{name}:{self.edge_port}"

    def address(self, port: int) -> str:
        """Return the address (host:port) of a TCP port, which is also the name of a tunnel there."""
        return f"{self.tunnel_domain}:{port}"


_VARIABLES = {
    "host": "EDGE_HOST",
    "directory": "EDGE_DIR",
    "instance": "EDGE_INSTANCE",
    "certificate": "EDGE_CERTIFICATE",
    "private_key": "EDGE_KEY",
}


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings. Raises SettingError if a setting is invalid."""
    try:
        return _read(environment)
    except InvalidText as error:
        raise SettingError(str(error)) from None


def _read(environment: Mapping[str, str]) -> Settings:
    named = {limit.name: environment.get(limit.name.upper()) for limit in fields(Limits)}
    limits = {name: texts.count(name.upper(), text) for name, text in named.items() if text}
    values: dict[str, object] = {}
    for setting in fields(Settings):
        name = _VARIABLES.get(setting.name, setting.name.upper())
        if text := environment.get(name):
            values[setting.name] = texts.port(name, text) if setting.type == "int" or setting.type is int else text
    if ("certificate" in values) != ("private_key" in values):
        raise SettingError("EDGE_CERTIFICATE and EDGE_KEY belong together: set both or neither.")
    _check_texts(str(values.get("abuse_contact", "")), str(values.get("metrics_by", "control")))
    _check_instance(str(values.get("instance", "")), str(values.get("hop_port", "0")))
    if text := str(values.get("tunnel_domain", "")):
        values["tunnel_domain"] = texts.domain(text)
    if text := str(values.get("tcp_ports", "")):
        values["tcp_ports"] = texts.ports(text)
    for name, read in _LISTS.items():
        if listed := str(values.get(name, "")):
            values[name] = tuple(read(name.upper(), text.strip()) for text in listed.split(","))
    for name in ("envoy", "access_log"):
        if "/" in (path := str(values.get(name, ""))):
            values[name] = str(Path.cwd() / path)  # absolute, because Envoy runs in another folder
    # The default of EDGE_DIR is below the folder of `make run`.
    local = Path(environment.get("LOCAL_DIR") or ".local") / "edge"
    values["directory"] = Path(str(values.get("directory", local)))
    return Settings(**values, limits=Limits(**limits))  # type: ignore[arg-type]


def _check_texts(contact: str, metrics_by: str) -> None:
    if not contact.isprintable() or len(contact.encode()) > 255:
        raise SettingError("ABUSE_CONTACT must be one line of at most 255 bytes, for example an email address.")
    if metrics_by not in ("control", "gateway", "sign-in"):
        raise SettingError("METRICS_BY must be control, or gateway or sign-in on a host that runs only this process.")


def _check_instance(instance: str, hop_port: str) -> None:
    if instance not in INSTANCES:
        raise SettingError(f"EDGE_INSTANCE={instance} must be a or b: correct it or unset it.")
    if int(hop_port) > _LAST_HOP_PORT:
        hint = f"choose at most {_LAST_HOP_PORT}, since gateways also use the five ports after it"
        raise SettingError(f"HOP_PORT={hop_port} is too high: {hint}.")


_LISTS: Mapping[str, Callable[[str, str], object]] = {
    "dns_servers": texts.server,
    "proxy_protocol_from": texts.network,
    "sign_in_hosts": texts.peer,
    "ssh_proxy_protocol_from": texts.network,
}
