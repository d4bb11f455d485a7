"""Answers requests to the sign-in service's own host, `sign-in.` below TUNNEL_DOMAIN.

The path /callback of this host is the redirect URI of all OAuth applications. On the page /confirm, visitors confirm
that a host may use a managed OAuth application, which belongs to the operator.
"""

import hmac
import secrets
from urllib.parse import urlencode

from edge.sign_in import cookies, replies
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.replies import Reply
from edge.sign_in.sealed import confirmations
from edge.sign_in.sealed.state import State
from edge.sign_in.starter import Starter
from edge.sign_in.visits import Visit

_FORWARDED = ("code", "error", "iss")
_NOT_FOUND = "404: the sign-in service has no such page."


class SignInHost:
    """Answers requests to the sign-in service's own host."""

    def __init__(self, dependencies: Dependencies, starter: Starter) -> None:
        self._records, self._clock, self._starter = dependencies.records, dependencies.clock, starter

    async def answer(self, visit: Visit) -> Reply:
        """Return the response to a request for the service's own host. Raises NotReady, aws.Unavailable."""
        match visit.method, visit.endpoint:
            case "GET", "/callback":
                return self._callback(visit)
            case "GET" | "POST", "/confirm":
                return await self._confirm(visit)
        return replies.page(404, _NOT_FOUND)

    def _callback(self, visit: Visit) -> Reply:
        """Handle the provider's redirect: redirect the visitor to the host of the sign-in.

        The decrypted state names the host at which the sign-in began. There, the service exchanges the authorization
        code.
        """
        sealed = visit.parameter("state")
        begun = self._starter.unseal(sealed)
        if begun is None:
            return replies.page(400, replies.NOT_BEGUN_HERE)
        parameters = {name: visit.parameter(name) for name in _FORWARDED}
        query = urlencode({**{name: value for name, value in parameters.items() if value}, "state": sealed})
        return replies.redirect(self._starter.callback_url(begun, query))

    async def _confirm(self, visit: Visit) -> Reply:
        sealed = visit.parameter("state")
        begun = self._starter.unseal(sealed)
        if begun is None or not sealed:
            return replies.page(400, replies.NOT_BEGUN_HERE)
        rule = await self._records.current_rule(begun.account, begun.edge, begun.route)
        if rule is None or rule.audience != begun.audience:
            return replies.page(400, replies.NOT_BEGUN_HERE)
        url = self._starter.authorize_url(rule, begun, sealed, fresh=visit.parameter("fresh") == "1")
        keys = self._records.state_keys()
        confirmed = confirmations.read(cookies.read(visit.cookies, confirmations.COOKIE), keys, self._clock())
        # the account is part of the site: if another account gets the host, its visitors must confirm again
        site = f"{begun.account} {begun.host}"
        if confirmed.has(site):
            return replies.redirect(url)
        if visit.method == "POST" and self._is_confirmed(visit, begun):
            added = confirmed.add(site, self._clock())
            kid = self._records.signing_key().kid
            return replies.redirect(url, 303, [confirmations.build_cookie(added, kid, keys[kid])])
        return self._page(visit, begun, rule.provider, self._starter.scopes(rule))

    def _is_confirmed(self, visit: Visit, begun: State) -> bool:
        token = cookies.read(visit.cookies, confirmations.TOKEN_COOKIE)
        form_token = visit.parameter("token")
        if not token or not form_token or not visit.is_from_this_site:
            return False
        return hmac.compare_digest(form_token.encode(), confirmations.token_for(token, begun.nonce).encode())

    def _page(self, visit: Visit, begun: State, provider: str, scopes: tuple[str, ...]) -> Reply:
        token = cookies.read(visit.cookies, confirmations.TOKEN_COOKIE) or secrets.token_urlsafe(16)
        query = {
            "state": visit.parameter("state") or "",
            "token": confirmations.token_for(token, begun.nonce),
            **({"fresh": "1"} if visit.parameter("fresh") == "1" else {}),
        }
        cookie = cookies.build(confirmations.TOKEN_COOKIE, token, lifetime=cookies.LOGIN_TIME)
        return replies.confirmation_page(begun.host, provider, scopes, f"/confirm?{urlencode(query)}", [cookie])
