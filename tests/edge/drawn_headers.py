"""Random changes of headers, random headers to change, and a model of what is left of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from chalicelib.model.edges.headers import header_changes
from chalicelib.model.edges.headers.changed_headers import HeadersModule

Lines = Sequence[tuple[str, str]]
OF_REQUESTS = (  # without Referer, which Envoy removes if it is not a URL
    *("X-Env", "X_Env", "x-debug", "Cookie", "Authorization", "Accept-Language", "User-Agent", "Accept"),
    *("Origin", "Content-Type", "X-Api.Key", "Idempotency-Key", "Cache-Control", "If-None-Match"),
)
OF_RESPONSES = (
    *("X-Frame-Options", "X_Env", "x-debug", "Server", "Set-Cookie", "Content-Type", "Location", "Cache-Control"),
    *("ETag", "Last-Modified", "X-Api.Key", "Strict-Transport-Security", "Access-Control-Allow-Origin"),
)
_VALUES = (
    *("", "0", "a", "100%", "%%", "%REQ(:path)%", "%DOWNSTREAM_REMOTE_ADDRESS%", "a\tb", '"q\\"', "{a}", "a, b;c=d"),
    *("x" * header_changes.MAX_VALUE, "Basic eA==", 'W/"1"', "text/plain; charset=utf-8", "\\u0000", "$1 \\1 &amp;"),
)
_VALUES_SENT = ("mine", "1", "a=b", "c, d", "Basic bWluZQ==", "text/html", "100%", "x" * 100)


@dataclass(frozen=True)
class DrawnChanges:
    """The modules of a route, the headers of a visitor and of an upstream, and the status of the response."""

    of_requests: HeadersModule | None
    of_responses: HeadersModule | None
    request: Lines
    response: Lines
    status: int

    @property
    def forwarded(self) -> dict[str, str]:
        """Return what the upstream receives, by lower-case names."""
        return join(_change(self.request, self.of_requests))

    @property
    def answered(self) -> dict[str, str]:
        """Return what the visitor receives, by lower-case names."""
        return join(_change(self.response, self.of_responses))


def draw(chance: Random) -> DrawnChanges:
    return DrawnChanges(
        _draw_module(chance, OF_REQUESTS),
        _draw_module(chance, OF_RESPONSES),
        _draw_lines(chance, OF_REQUESTS),
        _draw_lines(chance, OF_RESPONSES),
        chance.choice((200, 200, 201, 302, 404, 500)),
    )


def join(lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by lower-case names. Values of one name are sorted, because a proxy may join some of them."""
    values: dict[str, list[str]] = {}
    for name, value in lines:
        separator = ";" if name.lower() == "cookie" else ","
        values.setdefault(name.lower(), []).extend(part.strip(" ") for part in value.split(separator))
    return {name: "|".join(sorted(parts)) for name, parts in values.items()}


def _draw_module(chance: Random, names: Sequence[str]) -> HeadersModule | None:
    if chance.random() < 0.1:
        return None
    added_names = chance.sample(names, chance.choice((0, 1, 2, header_changes.MAX_CHANGES)))
    removed_names = chance.sample(names, chance.choice((0, 1, 2, header_changes.MAX_CHANGES)))
    recased = [chance.choice((str, str.lower, str.upper))(name) for name in removed_names]
    return HeadersModule(add={name: chance.choice(_VALUES) for name in added_names}, remove=recased)


def _draw_lines(chance: Random, names: Sequence[str]) -> Lines:
    drawn_names = [chance.choice(names) for _ in range(chance.randrange(8))]
    return [(chance.choice((name, name.lower(), name.upper())), chance.choice(_VALUES_SENT)) for name in drawn_names]


def _change(lines: Lines, module: HeadersModule | None) -> Lines:
    if module is None:
        return lines
    removed_names = {name.lower() for name in (*module.remove, *module.add)}
    return [*((name, value) for name, value in lines if name.lower() not in removed_names), *module.add.items()]
