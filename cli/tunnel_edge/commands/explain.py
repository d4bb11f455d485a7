"""The output of `te login --explain`: the claims of a token, and the conditions of a federated credential."""

import json
from collections.abc import Mapping
from typing import Any

from tunnel_edge import output
from tunnel_edge.api.client import Client
from tunnel_edge.errors import CommandError
from tunnel_edge.identity import oidc
from tunnel_edge.identity.profiles import Profile


def show_token(token: str) -> None:
    """Print the claims of a token."""
    output.note("Claims of the token, not verified here:")
    for name, value in sorted(oidc.claims_of(token).items()):
        output.note(f"  {name}: {_text(value)}")


def show_conditions(profile: Profile, token: str) -> None:
    """Print the audiences and claims that the federated credential accepts, if the API key may read them."""
    client = Client(profile.url, lambda: token, cacert=profile.cacert, attempts=1)
    try:
        credential: Mapping[str, Any] = client.get(f"/federated_credentials/{profile.federated}")
    except CommandError as error:
        output.note(
            f"The conditions of the federated credential {profile.federated} cannot be read: "
            f"{str(error).partition(chr(10))[0]}"
        )
        return
    output.note(f"Conditions of {profile.federated}:")
    output.note(f"  aud: one of {_text(credential['audiences'])}")
    for name, patterns in sorted(credential["claims"].items()):
        output.note(f"  {name}: {_text(patterns)}")
    if owner := credential["owner_claim"]:
        output.note(f"  {owner}: the name of a user")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
