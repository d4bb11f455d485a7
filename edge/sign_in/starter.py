"""Begins sign-ins. The redirect to the provider has an encrypted state, which a cookie binds to the browser."""

import re
import secrets
from urllib.parse import urlsplit

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.sign_in import cookies, replies
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.provider import provider_table
from edge.sign_in.replies import Reply
from edge.sign_in.sealed import state
from edge.sign_in.sealed.state import State
from edge.sign_in.sign_in_records import NotReady
from edge.sign_in.visits import SERVICE, Visit, safe_path

_LOGIN = re.compile(r"[A-Za-z0-9_-]{22}")  # the value of a login cookie: 16 random bytes in base64url


class Starter:
    """Begins sign-ins. `url` is the URL of the sign-in service's own host.

    The URLs of the hosts that visitors request have the same port as `url`.
    """

    def __init__(self, dependencies: Dependencies, url: str) -> None:
        self._records, self._providers = dependencies.records, dependencies.providers
        self._clock, self._url = dependencies.clock, url
        port = urlsplit(url).port
        self._port = f":{port}" if port else ""

    @property
    def redirect_uri(self) -> str:
        """Return the redirect URI of all sign-ins. Every OAuth application must be registered with this URI."""
        return f"{self._url}/callback"

    def callback_url(self, begun: State, query: str) -> str:
        """Return the URL that completes a sign-in at the host that the visitor requested."""
        return f"https://{begun.host}{self._port}{SERVICE}callback?{query}"

    async def begin(self, visit: Visit, rule: SignInRule, path: str, *, fresh: bool) -> Reply:
        """Return the response that begins a sign-in: a redirect to the provider.

        For a managed OAuth application, which belongs to the operator, redirect to the confirmation page first.
        """
        name = rule.login_cookie
        login = cookies.read(visit.cookies, name)
        if not _LOGIN.fullmatch(login):
            login = secrets.token_urlsafe(16)
        sign_in = State(
            host=visit.host,
            account=rule.account,
            edge=rule.edge,
            route=rule.route,
            audience=rule.audience,
            login=state.digest(login),
            nonce=secrets.token_urlsafe(16),
            verifier=secrets.token_urlsafe(48),
            path=safe_path(path),
            began=int(self._clock()),
        )
        cookie = cookies.build(name, login, lifetime=cookies.LOGIN_TIME)
        sealed = self.seal(sign_in)
        if rule.client_id:
            return replies.redirect(self.authorize_url(rule, sign_in, sealed, fresh=fresh), cookies=[cookie])
        return replies.redirect(f"{self._url}/confirm?state={sealed}{'&fresh=1' if fresh else ''}", cookies=[cookie])

    def authorize_url(self, rule: SignInRule, sign_in: State, sealed: str, *, fresh: bool) -> str:
        """Return the provider's URL that begins the sign-in. Raises NotReady if there is no OAuth application."""
        client_id = self._records.client_id(rule)
        if not client_id:
            raise NotReady(
                f"there is no OAuth application for {rule.provider}: run python -m chalicelib oauth-apps set"
            )
        return provider_table.build_authorize_url(
            self._providers[rule.provider],
            rule,
            client_id=client_id,
            redirect_uri=self.redirect_uri,
            state=sealed,
            nonce=sign_in.nonce,
            challenge=sign_in.challenge,
            fresh=fresh,
        )

    def scopes(self, rule: SignInRule) -> tuple[str, ...]:
        """Return the OAuth scopes that a sign-in requests from the provider."""
        return self._providers[rule.provider].scopes_for(rule)

    def seal(self, sign_in: State) -> str:
        """Encrypt the state of a sign-in for the provider's URL."""
        kid = self._records.signing_key().kid
        return state.seal(sign_in, kid, self._records.state_keys()[kid])

    def unseal(self, text: str | None) -> State | None:
        """Decrypt the state of a sign-in. Return None if it is absent, invalid or too old."""
        return state.unseal(text, self._records.state_keys(), self._clock()) if text else None
