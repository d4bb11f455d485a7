"""From what an `ssh -R` asks for to the tunnel that is to be opened, or to the sentence that says why not."""

import secrets
from dataclasses import dataclass

from edge import wishes
from edge.records import Grant, NameBanned, NameTaken, Opening, TooManyTunnels
from edge.settings import Limits, Settings
from edge.wishes import Labelled, Refused

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


@dataclass(frozen=True)
class Asking:
    """Who asks: a grant, on a session of a gateway, from an address."""

    grant: Grant
    gateway: str
    session: str
    address: str


def read(host: str, port: int, asking: Asking, settings: Settings) -> Opening:
    """Return the tunnel that is asked for; raise Refused for what there is not and what the grant does not permit."""
    wish = wishes.read(host, port, settings.tunnel_domain)
    opening = Opening(asking.grant, asking.gateway, asking.session, forwards_to=asking.address)
    if isinstance(wish, Labelled):
        opening = opening.labelled(wish.labels)
    else:
        name = wish.name or _given_name(asking.grant, settings.tunnel_domain)
        opening = opening.named(name, settings.url(name))
    for target in opening.targets:
        if not asking.grant.permits(target):
            raise Refused(f"The rules of {asking.grant.credential} do not let it bind {target}.")
    return opening


def reason(error: Exception, name: str, limits: Limits) -> str:
    """Return why the store did not open a tunnel."""
    match error:
        case NameTaken():
            return f"{name} is taken by another credential: choose another name."
        case NameBanned():
            return f"{name} may not be used here: choose another name."
        case TooManyTunnels():
            return f"There are as many tunnels as there may be ({limits.max_tunnels_per_account} an account)."
    return "The gateway cannot reach its store just now: try again in a moment."


def shown(id: str, opening: Opening) -> str:
    """Return what the person at the terminal reads of an open tunnel."""
    if opening.labels:
        labels = ", ".join(f"{key}={value}" for key, value in opening.labels)
        return f"The backend tunnel {id} is online with {labels}; no edge leads to it yet."
    return f"{opening.url} is online."


def _given_name(grant: Grant, domain: str) -> str:
    drawn = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    name = f"{drawn}.{domain}"
    if not grant.permits(name):
        raise Refused(f"The rules of {grant.credential} permit no name of chance: ask for one, -R name:80:….")
    return name
