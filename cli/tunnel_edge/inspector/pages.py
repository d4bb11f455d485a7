"""Builds the pages of the inspector, which work without scripts. Does no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tunnel_edge.inspector import exports, replay, texts
from tunnel_edge.inspector.exchanges import Exchange, Message
from tunnel_edge.inspector.html import Html, join, tag

_MAX_TEXT = 64 * 1024  # the most characters of a body that a page shows


@dataclass(frozen=True)
class Site:
    """The settings of all pages. Their paths begin with `folder`, and each form contains the CSRF token `token`."""

    folder: str
    token: str
    url: str
    server: str

    def path(self, exchange: Exchange | None = None, rest: str = "") -> str:
        return f"{self.folder}requests/{exchange.id}{rest}" if exchange else self.folder + rest


@dataclass(frozen=True)
class View:
    """The settings of one page.

    `revealed` is a secret header to show without its mask, for example "request.3". `as_hex` shows bodies in
    hexadecimal.
    """

    revealed: str = ""
    as_hex: bool = False
    error: str = ""


def list_page(site: Site, exchanges: Iterable[Exchange], error: str = "") -> Html:
    """Return the page with all requests."""
    hint = tag("p", "Select a request to see its headers and bodies.", class_="hint")
    return _page(site, exchanges, None, join([_error(error), hint]))


def exchange_page(
    site: Site, exchanges: Iterable[Exchange], exchange: Exchange, original: Exchange | None, view: View
) -> Html:
    """Return the page of one exchange. If the exchange is a replay, `original` is the replayed exchange."""
    parts = [_error(view.error), _heading(exchange), _facts(site, exchange), _actions(site, exchange)]
    if exchange.replay_of:
        parts.append(_comparison(site, exchange, original, view))
    for name, message in (("request", exchange.request), ("response", exchange.response)):
        if message:
            parts.append(_message(site, exchange, name, message, view))
    return _page(site, exchanges, exchange, join(parts))


def edit_page(
    site: Site, exchanges: Iterable[Exchange], exchange: Exchange, text: str | None = None, error: str = ""
) -> Html:
    """Return the page with the form for an edited replay. Raises ReplayRefused."""
    text = replay.to_text(exchange) if text is None else text
    form = tag(
        "form",
        _hidden_token(site),
        tag("label", "The request, as it is sent to the local server", for_="text"),
        tag("textarea", f"\n{text}", id="text", name="text", rows="20", spellcheck="false"),
        tag("p", tag("button", "Send", type="submit"), " ", tag("a", "Cancel", href=site.path(exchange))),
        method="post",
        action=site.path(exchange, "/replay"),
    )
    heading = tag("h2", "Edit and replay ", _name(exchange))
    return _page(site, exchanges, exchange, join([_error(error), heading, form]))


def _page(site: Site, exchanges: Iterable[Exchange], selected: Exchange | None, detail: Html) -> Html:
    rows = join(_row(site, exchange, selected) for exchange in exchanges)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{_name(selected)} – te" if selected else "Requests – te"),
        tag("link", rel="stylesheet", href=site.path(rest="page.css")),
        tag("script", src=site.path(rest="page.js"), defer=True),
    )
    requests = tag(
        "nav",
        tag("p", "No requests yet.", class_="empty", hidden=bool(rows)),
        tag("ol", rows, id="rows", data_folder=site.folder, data_selected=str(selected.id) if selected else ""),
        aria_label="Requests",
    )
    main = tag("main", detail, id="detail", tabindex="-1")
    body = tag("body", _header(site), requests, main, class_="one" if selected else "all")
    return join([Html("<!doctype html>"), tag("html", head, body, lang="en")])


def _header(site: Site) -> Html:
    clear = tag(
        "form",
        _hidden_token(site),
        tag("button", "Clear", type="submit"),
        method="post",
        action=site.path(rest="clear"),
    )
    search = tag("input", type="search", id="filter", placeholder="Filter", aria_label="Filter requests", hidden=True)
    return tag(
        "header",
        tag("h1", tag("a", "Requests", href=site.path())),
        tag("p", tag("span", site.url, class_="url"), " to ", tag("span", site.server), class_="route"),
        tag("div", search, tag("span", "", id="state", role="status"), clear, class_="tools"),
    )


def _row(site: Site, exchange: Exchange, selected: Exchange | None) -> Html:
    row = exports.summarize(exchange)
    link = tag(
        "a",
        tag("span", str(row["method"] or "–"), class_="method"),
        tag("span", str(row["path"] or "connection"), class_="path"),
        tag("span", str(row["status"] or "…"), class_=f"status s{str(row['status'] or '')[:1]}"),
        tag("span", _duration(row["ms"]), class_="ms"),
        tag("span", _clock(exchange.at), class_="at"),
        href=site.path(exchange),
        aria_current="page" if selected is exchange else None,
    )
    return tag("li", link, id=f"r{exchange.id}", class_="replay" if exchange.replay_of else None)


def _heading(exchange: Exchange) -> Html:
    return tag("h2", tag("span", _name(exchange), class_="name"))


def _facts(site: Site, exchange: Exchange) -> Html:
    row = exports.summarize(exchange)
    facts: list[tuple[str, Html | str]] = [
        ("Status", f"{row['status'] or 'none yet'}"),
        ("Time", f"{_clock(exchange.at)}, {_duration(row['ms']) or 'not ended'}"),
        ("Visitor", exchange.client or "unknown"),
    ]
    if exchange.informational:
        facts.append(("Before it", ", ".join(map(str, exchange.informational))))
    if exchange.is_stream:
        facts.append(("Connection", f"{row['received']} bytes in, {row['sent']} bytes out"))
    if exchange.note:
        facts.append(("Note", exchange.note))
    if exchange.replay_of:
        link = tag("a", f"request {exchange.replay_of}", href=site.path(rest=f"requests/{exchange.replay_of}"))
        facts.append(("Replay of", link))
    return tag("dl", *(join([tag("dt", name), tag("dd", value)]) for name, value in facts), class_="facts")


def _actions(site: Site, exchange: Exchange) -> Html:
    try:
        replay.raw_request(exchange)
    except replay.ReplayRefused as refusal:
        return tag("p", f"No replay: {refusal}", class_="hint")
    again = tag(
        "form",
        _hidden_token(site),
        tag("button", "Replay", type="submit"),
        method="post",
        action=site.path(exchange, "/replay"),
    )
    curl = tag("details", tag("summary", "curl"), tag("pre", exports.as_curl(exchange, site.url), tabindex="0"))
    edit = tag("a", "Edit and replay", href=site.path(exchange, "/edit"))
    har = tag("a", "HAR", href=site.path(exchange, "/har"), download=True)
    return tag("div", again, edit, har, curl, class_="actions")


def _comparison(site: Site, exchange: Exchange, original: Exchange | None, view: View) -> Html:
    """Return the first response and the replay's response side by side, and their differences."""
    if original is None:
        return tag("p", "The first request is no longer recorded.", class_="hint")
    responses = tag(
        "div",
        *(
            tag("section", tag("h4", name), _answer(side, view))
            for name, side in (("First", original), ("Replay", exchange))
        ),
        class_="both",
    )
    lines = texts.differences(original, exchange)
    kinds = {"-": "removed", "+": "added"}
    shown = join(tag("span", f"{line}\n", class_=kinds.get(line[0], "same")) for line in lines)
    difference = tag("pre", shown, tabindex="0") if lines else tag("p", "The responses are the same.", class_="hint")
    return tag(
        "section", tag("h3", "Differences"), difference, tag("details", tag("summary", "Side by side"), responses)
    )


def _answer(exchange: Exchange, view: View) -> Html:
    message = exchange.response
    if message is None:
        return tag("p", exchange.note or "no response", class_="hint")
    headers = [f"{name}: {value}" for name, value in texts.visible_headers(message)]
    shown = "\n".join([texts.first_line(message), *headers, "", _body_text(message, view)])
    return tag("pre", shown, tabindex="0")


def _message(site: Site, exchange: Exchange, name: str, message: Message, view: View) -> Html:
    rows = [_header_row(site, exchange, name, number, header, view) for number, header in enumerate(message.headers)]
    title = {"request": "Request", "response": "Response"}[name]
    return tag(
        "section",
        tag("h3", title),
        tag("p", texts.first_line(message), class_="line"),
        tag("table", tag("tbody", *rows), aria_label=f"{title} headers"),
        _body(site, exchange, name, message, view),
    )


def _header_row(site: Site, exchange: Exchange, part: str, number: int, header: tuple[str, str], view: View) -> Html:
    name, value = header
    position = f"{part}.{number}"
    shown: Html | str = value
    if texts.is_secret(name) and view.revealed != position:
        link = tag("a", "show", href=site.path(exchange, f"?reveal={position}"), aria_label=f"Show {name}")
        shown = join([texts.MASK, " ", link])
    return tag("tr", tag("th", name, scope="row"), tag("td", shown))


def _body(site: Site, exchange: Exchange, name: str, message: Message, view: View) -> Html:
    if not message.size:
        return tag("p", "No body.", class_="hint")
    size = f"{message.size} bytes" + (f", of which {len(message.body)} were recorded" if message.is_cut else "")
    other = ("text", "") if view.as_hex else ("hex", "?view=hex")
    links = [
        tag("a", f"as {other[0]}", href=site.path(exchange, other[1])),
        tag("a", "download", href=site.path(exchange, f"/body/{name}"), download=True),
    ]
    return join(
        [
            tag("p", f"{size} · ", links[0], " · ", links[1], class_="hint"),
            tag("pre", _body_text(message, view), tabindex="0", aria_label=f"Body of the {name}"),
        ]
    )


def _body_text(message: Message, view: View) -> str:
    body = texts.decode_body(message)
    text = texts.as_text(body)
    if text is None or view.as_hex:
        return texts.as_hex(body)
    return (
        text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}\n… {len(text) - _MAX_TEXT} more characters: download"
    )


def _name(exchange: Exchange) -> str:
    request = exchange.request
    return f"{request.start[0]} {request.start[1]}" if request else "A connection that is not HTTP/1.1"


def _hidden_token(site: Site) -> Html:
    return tag("input", type="hidden", name="token", value=site.token)


def _error(text: str) -> Html:
    return tag("p", text, class_="error", role="alert") if text else Html()


def _duration(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds} ms"


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
