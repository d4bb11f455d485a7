"""The enabled modules of edges, routes and reservations that the live edge enforces, decoded from their records.

A malformed record is never ignored: its edge, route or tunnel is closed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges import sign_in_rules
from chalicelib.model.edges.headers import header_changes
from chalicelib.model.edges.modules import (
    BackendModule,
    CircuitBreakerModule,
    CompressionModule,
    HeadersModule,
    IpRestrictionModule,
    MutualTlsModule,
    OAuthModule,
    TlsTerminationModule,
    TrafficPolicyModule,
    UserAgentModule,
    WebhookModule,
    WebhookRule,
)
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.storage.records.decoding import MalformedRecord

M = TypeVar("M", bound=StoredModule)
_VERSIONS = (None, "", "1.0", "1.1", "1.2", "1.3")
_ENFORCED: Mapping[Kind, tuple[str, ...]] = {  # modules by the kind of their parent
    kinds.HTTPS_EDGES: ("ip_restriction", "mutual_tls", "tls_termination"),
    kinds.HTTPS_EDGE_ROUTES: (
        *("backend", "circuit_breaker", "compression", "ip_restriction", "oauth"),
        *("request_headers", "response_headers", "user_agent_filter", "webhook_verification"),
    ),
    kinds.TLS_EDGES: ("backend", "ip_restriction", "mutual_tls"),
    kinds.TCP_EDGES: ("backend", "ip_restriction", "traffic_policy"),
    kinds.RESERVED_DOMAINS: ("ip_restriction",),
    kinds.RESERVED_ADDRS: ("ip_restriction",),
}


@dataclass(frozen=True)
class Modules:
    """The enabled modules of an edge, route or reservation. Disabled ones are None.

    `unenforced` has the names of enabled modules that are malformed or that the live edge cannot enforce there. An
    edge, route or tunnel with one of them is closed.
    """

    backend: BackendModule | None = None
    mutual_tls: MutualTlsModule | None = None
    tls_termination: TlsTerminationModule | None = None
    user_agent_filter: UserAgentModule | None = None
    traffic_policy: TrafficPolicyModule | None = None
    oauth: SignInRule | None = None
    request_headers: HeadersModule | None = None
    response_headers: HeadersModule | None = None
    compression: CompressionModule | None = None
    ip_restriction: IpRestrictionModule | None = None
    circuit_breaker: CircuitBreakerModule | None = None
    webhook_verification: WebhookRule | None = None
    unenforced: tuple[str, ...] = ()

    @staticmethod
    def of(stored: Mapping[str, Any], kind: Kind) -> "Modules":
        """Return the enabled modules of an item of a kind."""
        enabled = {name: it for name, it in stored.items() if not _is_disabled(it)}
        decoded = {name: module for name in _ENFORCED[kind] if (module := _DECODERS[name](enabled.get(name)))}
        return Modules(**decoded, unenforced=tuple(sorted(enabled.keys() - decoded.keys())))


NO_MODULES = Modules()


def is_id(value: object) -> bool:
    """Return whether a value has the prefix of an id of a known kind."""
    try:
        return isinstance(value, str) and bool(kinds.of(value))
    except kinds.UnknownKind:
        return False


def _is_disabled(record: object) -> bool:
    return isinstance(record, Mapping) and record.get("enabled") is False


def _decode_module(form: type[M], record: Any, is_whole: Callable[[M], bool] = lambda _: True) -> M | None:
    """Return the module of a valid record, or None."""
    try:
        found = form.of(record) if record is not None else None
    except MalformedRecord:
        return None
    return found if found and is_whole(found) else None


def _decode_headers(record: Any, check: Callable[[str], str]) -> HeadersModule | None:
    """Return the module of a valid record with headers that may be changed, or None."""

    def is_whole(made: HeadersModule) -> bool:
        try:
            header_changes.check_changes(made.add, made.remove, check)
        except ValueError:
            return False
        return True

    return _decode_module(HeadersModule, record, is_whole)


def _is_circuit(made: CircuitBreakerModule) -> bool:
    """Return whether Envoy can obey the values of a circuit breaker."""
    numbers = (made.tripped_duration, made.rolling_window, made.num_buckets, made.volume_threshold)
    return all(1 <= number < 1 << 31 for number in numbers) and 1 <= made.error_percent <= 100


def _decode_sign_in(record: Any) -> SignInRule | None:
    module = _decode_module(OAuthModule, record)
    return sign_in_rules.make_rule(module) if module else None


def _decode_webhooks(record: Any) -> WebhookRule | None:
    module = _decode_module(WebhookModule, record)
    return module.rule if module else None


_DECODERS: Mapping[str, Callable[[Any], Any]] = {  # of enabled modules; None for a malformed or absent one
    "backend": lambda it: _decode_module(
        BackendModule, it, lambda made: made.backend_id is None or is_id(made.backend_id)
    ),
    "circuit_breaker": lambda it: _decode_module(CircuitBreakerModule, it, _is_circuit),
    "compression": lambda it: _decode_module(CompressionModule, it),
    "ip_restriction": lambda it: _decode_module(
        IpRestrictionModule, it, lambda made: bool(made.ip_policy_ids) and all(map(is_id, made.ip_policy_ids))
    ),
    "mutual_tls": lambda it: _decode_module(
        MutualTlsModule, it, lambda made: all(map(is_id, made.certificate_authority_ids))
    ),
    "oauth": _decode_sign_in,
    "request_headers": lambda it: _decode_headers(it, header_changes.check_request_name),
    "response_headers": lambda it: _decode_headers(it, header_changes.check_response_name),
    "tls_termination": lambda it: _decode_module(TlsTerminationModule, it, lambda made: made.min_version in _VERSIONS),
    "traffic_policy": lambda it: _decode_module(TrafficPolicyModule, it),
    "user_agent_filter": lambda it: _decode_module(UserAgentModule, it),
    "webhook_verification": _decode_webhooks,
}
