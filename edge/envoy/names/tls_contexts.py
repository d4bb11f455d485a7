"""Requirements on handshakes: TLS versions, and certificates of clients. Pure."""

from collections.abc import Mapping, Sequence

from chalicelib.model.serving.edge_plans import Plan
from edge.envoy.resources import Json

VERSIONS = {"1.0": "TLSv1_0", "1.1": "TLSv1_1", "1.2": "TLSv1_2", "1.3": "TLSv1_3"}
DEFAULT_VERSION = "1.2"
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


def version_of(plan: Plan) -> str:
    """Return the oldest TLS version that an edge accepts."""
    termination = plan.edge.modules.tls_termination
    return (termination.min_version if termination else None) or DEFAULT_VERSION


def requirement_of(version: str) -> str:
    """Return what a TLS version requires beyond the default, as part of a scope's name."""
    return "" if version == DEFAULT_VERSION else version


def build_params(version: str, trusted: Sequence[str] = ()) -> dict[str, Json]:
    """Return the parameters of handshakes from a version on. `trusted` are authorities of clients."""
    params: dict[str, Json] = {"tls_minimum_protocol_version": VERSIONS[version]}
    if version in _OLD:
        params["cipher_suites"] = [*_CIPHERS, *_OLD_CIPHERS]
    return {**params, "signature_algorithms": _SIGNATURES} if trusted else params


def require_client(common: Mapping[str, Json], trusted: Sequence[str]) -> dict[str, Json]:
    """Return a TLS context that accepts only clients with a certificate of the authorities, PEM."""
    authorities: Json = {"trusted_ca": {"inline_string": "\n".join(trusted)}}
    return {"require_client_certificate": True, "common_tls_context": {**common, "validation_context": authorities}}
