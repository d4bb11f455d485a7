"""Envoy's listeners of edges: an internal one for each certificate of an edge, and TCP ports. Pure."""

from collections.abc import Mapping

from edge.envoy import edge_routes, listeners, stream_filters
from edge.envoy.resources import Json, Resource
from edge.plan.edges import Plan, listener_name
from edge.plan.world import OPERATOR
from edge.process.settings import Settings

_VERSIONS = {"1.0": "TLSv1_0", "1.1": "TLSv1_1", "1.2": "TLSv1_2", "1.3": "TLSv1_3"}
_DEFAULT = "1.2"
_OLD = frozenset({"1.0", "1.1"})
_CIPHERS: list[Json] = [  # Envoy's default for TLS 1.2
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
]
_OLD_CIPHERS: list[Json] = [  # additional ones for TLS 1.0 and 1.1
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-SHA",
    "AES256-SHA",
]
_SIGNATURES: list[Json] = [  # Envoy's default lacks ed25519
    "ecdsa_secp256r1_sha256",
    "rsa_pss_rsae_sha256",
    "rsa_pkcs1_sha256",
    "ecdsa_secp384r1_sha384",
    "rsa_pss_rsae_sha384",
    "rsa_pkcs1_sha384",
    "ecdsa_secp521r1_sha512",
    "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha512",
    "ed25519",
]


def build_edge_listener(plan: Plan, certificate: str, settings: Settings) -> Resource:
    """Return the listener of an edge for a certificate. Routes are separate, so it survives their changes."""
    name, is_http = listener_name(plan.edge.id, certificate), not plan.is_stream
    http = (
        [stream_filters.build_connection_limit(settings), edge_routes.build_edge_manager(plan, settings)]
        if is_http
        else []
    )
    filters = http or stream_filters.build_edge_filters(plan, settings)
    own = () if certificate in ("", OPERATOR) else (certificate,)  # other resources contain these words too
    words = (plan.edge.id, plan.digest, plan.edge.account, *own, *plan.trusted)
    chain = (
        listeners.build_tls_chain(_context(plan, certificate), filters, settings)
        if certificate
        else {"filters": filters}
    )
    return (listeners.build_stream_listener if plan.is_stream else listeners.build_internal_listener)(
        name, chain, *words
    )


def build_edge_port_listener(plan: Plan, port: str, settings: Settings) -> Resource:
    """Return the listener of a TCP edge at one of its ports."""
    filters = stream_filters.build_edge_filters(plan, settings)
    return listeners.build_port_listener(port, filters, settings, plan.edge.id, plan.edge.account)


def _context(plan: Plan, certificate: str) -> Mapping[str, Json]:
    """Return the requirements on clients in the handshake."""
    termination = plan.edge.modules.tls_termination
    version = (termination.min_version if termination else None) or _DEFAULT
    context = listeners.build_tls_context if plan.is_stream else listeners.build_http_context
    params: dict[str, Json] = {"tls_minimum_protocol_version": _VERSIONS[version]}
    if version in _OLD:
        params["cipher_suites"] = [*_CIPHERS, *_OLD_CIPHERS]
    if not plan.trusted:
        return {"common_tls_context": context(certificate, params)}
    params["signature_algorithms"] = _SIGNATURES
    trusted: Json = {"trusted_ca": {"inline_string": "\n".join(plan.trusted)}}
    common = {**context(certificate, params), "validation_context": trusted}
    return {"require_client_certificate": True, "common_tls_context": common}
