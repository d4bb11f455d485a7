"""The sign-in rule of a route: who may pass, and for how long. It contains no secret. Pure."""

import hashlib
import json
from dataclasses import dataclass, replace

from chalicelib.model.edges.modules import OAuthModule, StoredProvider

MAX_DURATION = 14 * 24 * 60 * 60  # seconds of a session
_DAY = 24 * 60 * 60
_LISTS = ("scopes", "email_addresses", "email_domains", "teams", "organizations")


@dataclass(frozen=True)
class SignInRule:
    """The enabled OAuth module of a route. `of_route` sets the ids. Times are in seconds, 0 is no limit.

    With `client_id` "" the operator's managed application signs visitors in. `digest` changes with every field that
    decides about access, and with the client secret.
    """

    provider: str
    digest: str
    account: str = ""
    edge: str = ""
    route: str = ""
    client_id: str = ""
    scopes: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    email_domains: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    organizations: tuple[str, ...] = ()
    options_passthrough: bool = False
    cookie_prefix: str = "service."
    inactivity_timeout: int = 0
    maximum_duration: int = 0
    auth_check_interval: int = 0

    def of_route(self, account: str, edge: str, route: str) -> "SignInRule":
        """Return the rule with the ids of a route."""
        return replace(self, account=account, edge=edge, route=route)

    @property
    def audience(self) -> str:
        """Return the audience of session tokens."""
        return f"{self.route}.{self.digest}"

    @property
    def session_cookie(self) -> str:
        """Return the name of the cookie with the session token. Two routes of a host can use two providers."""
        return f"{self.cookie_prefix}session.{self.route[-6:]}"

    @property
    def id_cookie(self) -> str:
        """Return the name of the cookie with the session id."""
        return f"__Host-{self.cookie_prefix}id.{self.route[-6:]}"

    @property
    def login_cookie(self) -> str:
        """Return the name of the cookie that binds sign-ins to a browser."""
        return f"__Host-{self.cookie_prefix}login"

    @property
    def is_open_to_all(self) -> bool:
        """Return whether every user of the provider may pass."""
        return not (self.email_addresses or self.email_domains or self.teams or self.organizations)

    @property
    def check_interval(self) -> int:
        """Return the seconds after which the provider is asked again."""
        return self.auth_check_interval or _DAY

    @property
    def max_session(self) -> int:
        """Return the longest duration of a session."""
        return min(self.maximum_duration or MAX_DURATION, MAX_DURATION)

    @property
    def max_stream(self) -> int:
        """Return the longest duration of a request, for example of a WebSocket."""
        return min(filter(None, (self.maximum_duration, self.auth_check_interval)), default=_DAY)


def make_rule(module: OAuthModule) -> SignInRule | None:
    """Return the rule of a module, without ids, or None if the module does not name exactly one provider."""
    if len(module.providers) != 1:
        return None
    ((name, provider),) = module.providers
    return SignInRule(
        provider=name,
        digest=_digest(name, provider, module),
        client_id=provider.client_id,
        scopes=tuple(provider.scopes),
        email_addresses=tuple(provider.email_addresses),
        email_domains=tuple(provider.email_domains),
        teams=tuple(provider.teams or ()),
        organizations=tuple(provider.organizations or ()),
        options_passthrough=module.options_passthrough,
        cookie_prefix=module.cookie_prefix,
        inactivity_timeout=module.inactivity_timeout,
        maximum_duration=module.maximum_duration,
        auth_check_interval=module.auth_check_interval,
    )


def _digest(name: str, provider: StoredProvider, module: OAuthModule) -> str:
    """Return a digest of a module, without its `options_passthrough`, which decides nothing about users.

    The same secret keeps its sealed bytes, so they stand for it.
    """
    times = (module.inactivity_timeout, module.maximum_duration, module.auth_check_interval)
    lists = [getattr(provider, it) or [] for it in _LISTS]
    facts = [name, provider.client_id, provider.client_secret.hex(), lists, module.cookie_prefix, times]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
