"""Responses of the sign-in service, and its pages. This file does no I/O."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from chalicelib.model.serving import pages
from edge.sign_in.provider.provider_table import TITLES

_HTML = "text/html; charset=utf-8"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}"
    "button{font:inherit;padding:.4rem 1rem}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}"
    "a{color:#8cf}}"
)

NO_HOST = "The Host header is malformed."
NO_SESSION = "This page requires a sign-in."
NOT_BEGUN_HERE = "This sign-in did not begin in this browser, or took more than ten minutes."
DECLINED = "The sign-in was declined at the provider."
NOT_ACCEPTED = "The provider's answer does not belong to this sign-in."
UNREADABLE = "The provider sent an unexpected answer, so the sign-in failed."
APPLICATION_REFUSED = "The provider refuses this site's application. Only the site's owner can correct this."
_OF_PASSWORDS = {401: pages.NOT_AUTHENTICATED, 429: pages.MANY_GUESSES}
_OF_WEBHOOKS = {403: pages.NOT_SIGNED, 413: pages.LARGE_WEBHOOK}
UNAVAILABLE = "A sign-in is not possible at the moment. Try again in a few seconds."


@dataclass(frozen=True)
class Reply:
    """A response to the visitor instead of the upstream's response. The request is not forwarded."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Sequence[str] = ()
    body: str = ""


@dataclass(frozen=True)
class Forward:
    """The decision to forward a request, with headers about the visitor."""

    headers: Mapping[str, str]
    cookies: Sequence[str] = ()


def webhook(status: int) -> Forward | Reply:
    """Return the response to a webhook.

    Return Forward if the check of its signature returned the status 200.
    """
    if status == 200:
        return Forward({})
    text = _OF_WEBHOOKS.get(status, pages.NOT_VERIFIABLE)
    return Reply(status, {"content-type": "text/plain", "cache-control": "no-store"}, body=text)


def password(status: int, retry_after: int) -> Forward | Reply:
    """Return the response to a request with a password.

    Return Forward if the check of the password returned the status 200.
    """
    if status == 200:
        return Forward({})
    headers = {"content-type": "text/plain", "cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = 'Basic realm="restricted", charset="UTF-8"'
    if status == 429:
        headers["retry-after"] = str(retry_after)
    return Reply(status, headers, body=_OF_PASSWORDS.get(status, pages.NOT_CHECKABLE))


def redirect(location: str, status: int = 302, cookies: Sequence[str] = ()) -> Reply:
    """Return a redirect that must not be cached."""
    return Reply(status, {"location": location, "cache-control": "no-store"}, cookies)


def page(status: int, text: str, *, link: tuple[str, str] | None = None, cookies: Sequence[str] = ()) -> Reply:
    """Return an HTML page with a sentence. `link` is a URL and the text of the link."""
    more = f'<p><a href="{html.escape(link[0])}">{html.escape(link[1])}</a></p>' if link else ""
    retry = {"retry-after": "5"} if status == 503 else {}
    return Reply(status, {**_page_headers(_POLICY), **retry}, cookies, _document(f"{_paragraph(text)}{more}"))


def no_session(path: str) -> Reply:
    """Return the response to a script's request that has no session.

    A browser's request for a page is redirected to the provider instead.
    """
    return page(401, NO_SESSION, link=(sign_in_link(path), "Sign in"))


def denial(address: str, provider: str, path: str) -> Reply:
    """Return the response to a user who is signed in but may not pass. The page shows the user's address or name."""
    user = address or "this user"
    text = f"{user} ({TITLES[provider]}) may not visit this page."
    return page(403, text, link=(sign_in_link(path), "Sign in as somebody else"))


def sign_out_page(path: str) -> Reply:
    """Return a page with a sign-out button. Without the page, a link on another site could end a session."""
    action = html.escape(f"/_service/sign-out?to={quote(path, safe='/')}")
    form = f'<form method="post" action="{action}"><button>Sign out</button></form>'
    policy = f"{_POLICY}; form-action 'self'"
    return Reply(200, _page_headers(policy), (), _document(f"{_paragraph('Sign out of this site?')}{form}"))


def confirmation_page(
    host: str, provider: str, scopes: Sequence[str], action: str, cookies: Sequence[str] = ()
) -> Reply:
    """Return the page on which a visitor confirms that a host may use a managed OAuth application.

    The page names the host and the requested scopes.
    `action` is the URL to which the button posts. The Content-Security-Policy has no `form-action`, because the
    response to the post is a redirect to the provider.
    """
    name = TITLES[provider]
    text = f"{host} asks you to sign in with {name}. This service will read: {', '.join(scopes)}."
    more = f"{host} learns who you are."
    form = f'<form method="post" action="{html.escape(action)}"><button>Continue to {name}</button></form>'
    document = _document(f"{_paragraph(text)}{_paragraph(more)}{form}")
    return Reply(200, _page_headers(_POLICY), cookies, document)


def sign_in_link(path: str) -> str:
    """Return the URL that begins a sign-in. Afterwards, the visitor is redirected to `path`."""
    return f"/_service/sign-in?to={quote(path, safe='/')}"


def _page_headers(policy: str) -> dict[str, str]:
    return {
        "content-type": _HTML,
        "cache-control": "no-store",
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _document(content: str) -> str:
    head = f'<meta name="viewport" content="width=device-width"><title>Sign-in</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><meta charset="utf-8">{head}<body>{content}</body></html>\n'
