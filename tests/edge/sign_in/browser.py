"""A browser in front of the sign-in service: it keeps cookies, follows redirects, and plays Envoy's part."""

import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.service import SignInService
from edge.sign_in.visits import Visit

SIGN_IN_HOST = "sign-in.tunnels.localhost"
_COOKIE = re.compile(r"([^=]+)=([^;]*)(.*)")


@dataclass
class Browser:
    """A visitor of one route. `cookies` are kept by host."""

    service: SignInService
    rule: SignInRule
    host: str = "app.tunnels.localhost"
    cookies: dict[str, dict[str, str]] = field(default_factory=dict)
    state: str = ""  # of the latest sign-in that began
    location: str = ""  # of the latest redirect

    async def get(self, path: str, method: str = "GET", **headers: str) -> Forward | Reply:
        """Return the service's answer to a request of the route."""
        visit = self._visit(self.host, path, method, headers)
        if not path.startswith("/_service/"):
            visit = replace(visit, route=self.rule.route, audience=self.rule.audience)
        return self._keep(self.host, await self.service.answer(visit))

    async def open(self, path: str) -> Forward | Reply:
        """Open a page as a browser does, with all redirects."""
        answer = await self.get(path, **{"sec-fetch-mode": "navigate"})
        return await self.follow(answer)

    async def follow(self, answer: Forward | Reply) -> Forward | Reply:
        """Follow redirects to the end."""
        for _ in range(12):
            if isinstance(answer, Forward) or "location" not in answer.headers:
                return answer
            answer = await self._go(answer.headers["location"])
        raise AssertionError("a loop of redirects")

    async def _go(self, location: str) -> Forward | Reply:
        url = urlsplit(location)
        if url.hostname == "127.0.0.1":
            async with httpx.AsyncClient(trust_env=False) as client:
                response = await client.get(location)
            return Reply(response.status_code, dict(response.headers))
        path = f"{url.path}?{url.query}" if url.query else url.path
        if url.hostname == SIGN_IN_HOST:
            return await self.get_of_service(path)
        assert url.netloc in ("", self.host), location
        return await self.get(path, **{"sec-fetch-mode": "navigate"})

    def _visit(self, host: str, path: str, method: str, headers: dict[str, str]) -> Visit:
        cookie_header = "; ".join(f"{name}={value}" for name, value in self.cookies.get(host, {}).items())
        browser_headers = {"cookie": cookie_header} if cookie_header else {}
        return Visit(
            method,
            path,
            host,
            "127.0.0.1",
            {**browser_headers, **headers},
            account=self.rule.account,
            edge=self.rule.edge,
        )

    def _keep(self, host: str, answer: Forward | Reply) -> Forward | Reply:
        for cookie in answer.cookies:
            match = _COOKIE.fullmatch(cookie)
            assert match, cookie
            jar = self.cookies.setdefault(host, {})
            if "Max-Age=0" in match[3]:
                jar.pop(match[1], None)
            else:
                jar[match[1]] = match[2]
        location = answer.headers.get("location", "") if isinstance(answer, Reply) else ""
        self.location = location or self.location
        if states := parse_qs(urlsplit(location).query).get("state"):
            self.state = states[0]
        return answer

    def token(self) -> dict[str, object]:
        """Return the claims of the session token, not verified."""
        (text,) = [value for name, value in self.cookies[self.host].items() if "session." in name]
        claims: dict[str, object] = jwt.decode(text, options={"verify_signature": False})
        return claims

    def session_id(self) -> str:
        """Return the id of the session."""
        (id,) = [value for name, value in self.cookies[self.host].items() if "id." in name]
        return id

    async def get_of_service(self, path: str) -> Forward | Reply:
        """Open a page of the service's own host."""
        visit = self._visit(SIGN_IN_HOST, path, "GET", {"sec-fetch-mode": "navigate"})
        return self._keep(SIGN_IN_HOST, await self.service.answer(_of_service(visit)))

    async def post_to_sign_in(self, path: str) -> Reply:
        """Post a form of the service's own host."""
        visit = self._visit(SIGN_IN_HOST, path, "POST", {"sec-fetch-site": "same-origin"})
        answer = self._keep(SIGN_IN_HOST, await self.service.answer(_of_service(visit)))
        assert isinstance(answer, Reply)
        return answer


def _of_service(visit: Visit) -> Visit:
    return replace(visit, account="", edge="", is_of_service=True)
