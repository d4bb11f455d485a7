"""Exchanges tokens of an OIDC issuer for API keys and certificates of the service (`POST /tokens`)."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tunnel_edge.api.client import Client
from tunnel_edge.errors import NOT_SIGNED_IN, CommandError
from tunnel_edge.identity.store import Secret

if TYPE_CHECKING:
    from tunnel_edge.identity.oidc import SignInParameters

_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"


def read_sign_in(client: Client, federated: str) -> "SignInParameters":
    """Return the parameters with which a user signs in by a federated credential."""
    from tunnel_edge.identity.oidc import SignInParameters

    answer = client.get(f"/federated_credentials/{federated}/sign_in")
    return SignInParameters(
        answer["issuer"], answer["client_id"], answer["client_secret"], tuple(answer["scopes"]), answer["audience"]
    )


def exchange(client: Client, federated: str, token: str) -> Secret:
    """Return an API key in exchange for a token of an issuer."""
    answer = client.post("/tokens", _parameters(federated, token))
    return Secret(answer["access_token"], answer["id"], str(answer["expires_in"]), answer["expires_at"])


def exchange_for_certificate(client: Client, federated: str, token: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a user certificate in exchange for a token of an issuer."""
    answer = client.post("/tokens", {**_parameters(federated, token), "certificate": body})
    certificate: Mapping[str, Any] = answer["ssh_user_certificate"]
    return certificate


def ambient_token(federated: str) -> str | None:
    """Return the OIDC token of the pipeline that runs `te`, or None outside of a pipeline. Raises CommandError."""
    if token := os.environ.get("TE_ID_TOKEN"):
        return token
    import id as ambient

    try:
        return ambient.detect_credential(os.environ.get("TE_AUDIENCE") or federated)
    except ambient.IdentityError as error:
        raise CommandError(f"The pipeline gave no OIDC token: {error}", NOT_SIGNED_IN) from error


def _parameters(federated: str, token: str) -> dict[str, Any]:
    return {"grant_type": _GRANT, "subject_token": token, "subject_token_type": _TOKEN_TYPE, "audience": federated}
