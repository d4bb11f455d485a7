"""Builds TLS contexts for handshake requirements: TLS versions and client certificates. This file does no I/O.

A handshake requirement is an edge's TLS version, or a digest if the edge demands client certificates or OAuth.
"""

from collections.abc import Mapping
from functools import lru_cache

from chalicelib.model.edges.modules import tls_termination
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import parts, selector, v3

VERSIONS: Mapping[str, v3.TlsParameters.TlsProtocol.ValueType] = {
    "1.0": v3.TlsParameters.TLSv1_0,
    "1.1": v3.TlsParameters.TLSv1_1,
    "1.2": v3.TlsParameters.TLSv1_2,
    "1.3": v3.TlsParameters.TLSv1_3,
}
DEFAULT_VERSION = "1.2"
_OLD = frozenset({"1.0", "1.1"})
_CIPHERS = [  # Envoy's default ciphers for TLS 1.2
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
]
_OLD_CIPHERS = [  # additional ciphers for TLS 1.0 and 1.1
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-SHA",
    "AES256-SHA",
]
_SIGNATURES = [  # Envoy's default signature algorithms, and ed25519
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


def version_of(plan: Plan) -> str:
    """Return the oldest TLS version that an edge accepts."""
    termination = plan.edge.modules.get(tls_termination.MODULE)
    return (termination.min_version if termination else None) or DEFAULT_VERSION


def requirement_of(version: str) -> str:
    """Return the handshake requirement of a TLS version. Return "" for the default version."""
    return "" if version == DEFAULT_VERSION else version


@lru_cache(1024)
def build_socket(version: str, trusted: tuple[str, ...] = (), protocols: tuple[str, ...] = ()) -> v3.TransportSocket:
    """Return a transport socket for TLS of at least `version`, which requests certificates on demand.

    `trusted` are certificate authorities in PEM. If there are any, only clients with a certificate from one of them are
    accepted. Envoy rejects a context with `trusted` unless session resumption is off.
    """
    context = v3.DownstreamTlsContext(
        common_tls_context=v3.CommonTlsContext(
            tls_params=v3.TlsParameters(
                tls_minimum_protocol_version=VERSIONS[version],
                cipher_suites=[*_CIPHERS, *_OLD_CIPHERS] if version in _OLD else [],
                signature_algorithms=_SIGNATURES if trusted else [],
            ),
            custom_tls_certificate_selector=selector.build_selector(),
            alpn_protocols=protocols,
        ),
        disable_stateless_session_resumption=True,
        disable_stateful_session_resumption=True,
    )
    if trusted:
        context.require_client_certificate.value = True
        context.common_tls_context.validation_context.trusted_ca.inline_string = "\n".join(trusted)
    return v3.TransportSocket(name="envoy.transport_sockets.tls", typed_config=parts.pack(context))
