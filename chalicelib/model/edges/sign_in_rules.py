"""The sign-in rule of a route: who may pass, and for how long. It contains no secret. This file does no I/O."""

from dataclasses import dataclass, replace

MAX_DURATION = 14 * 24 * 60 * 60  # the longest session, in seconds
_DAY = 24 * 60 * 60


@dataclass(frozen=True)
class SignInRule:
    """The enabled OAuth module of a route. `of_route` sets the ids of account, edge and route.

    Times are in seconds, 0 if the module does not set them.

    If `client_id` is "", the operator's managed OAuth application signs visitors in. `digest` changes with every field
    that decides who may pass, and with the client secret.
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
        """Return the sign-in rule with the ids of its account, edge and route."""
        return replace(self, account=account, edge=edge, route=route)

    @property
    def audience(self) -> str:
        """Return the audience of session tokens, so that a token is valid only for this rule."""
        return f"{self.route}.{self.digest}"

    @property
    def session_cookie(self) -> str:
        """Return the name of the cookie with the session token. The routes of a host have different names."""
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
        """Return the seconds after which the sign-in service asks the provider about the user again."""
        return self.auth_check_interval or _DAY

    @property
    def max_session(self) -> int:
        """Return the longest duration of a session, in seconds."""
        return min(self.maximum_duration or MAX_DURATION, MAX_DURATION)

    @property
    def max_stream(self) -> int:
        """Return the longest duration of a request in seconds, for example of a WebSocket."""
        return min(filter(None, (self.maximum_duration, self.auth_check_interval)), default=_DAY)
