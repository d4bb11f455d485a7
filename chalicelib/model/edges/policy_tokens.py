"""The tokens of expressions in traffic policies, a closed part of CEL, and their bounds. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

CLIENT_IP, SERVER_PORT, SERVER_REGION = "conn.client_ip", "conn.server_port", "conn.server_region"
MAX_OPERATORS = 500  # of an expression
MAX_DEPTH = 32  # of an expression, and of a document
_WORD = r"""(?P<blank>[ \t\n\f\r]+|//[^\r\n]*)
    |(?P<string>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
    |(?P<integer>-?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![\w.]))
    |(?P<sign>\|\||&&|[=!<>]=|[!<>()\[\],]|in\b)
    |(?P<name>[a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)*)"""
_OPERATORS = frozenset(["||", "&&", "!", "==", "!=", "<", "<=", ">", ">=", "in"])
_ESCAPE = r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))"
_ESCAPED = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_SHOWN = 40  # characters of a document in an error


class UnsupportedPolicy(Exception):
    """A policy that cannot be enforced. The message says why, in one sentence."""


class Token(NamedTuple):
    """A word of an expression, and the number of characters before it."""

    kind: Literal["string", "integer", "name", "sign", "end"]
    text: str
    start: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of an expression, with an end token last. Raises UnsupportedPolicy, also above the bounds."""
    tokens = [*_read_tokens(text), Token("end", "", len(text))]
    if sum(it.text in _OPERATORS for it in tokens if it.kind == "sign") > MAX_OPERATORS:
        raise UnsupportedPolicy(f"has more than {MAX_OPERATORS} operators.")
    if _measure_depth(tokens) > MAX_DEPTH:
        raise UnsupportedPolicy(f"is more than {MAX_DEPTH} levels deep.")
    return tokens


def count_addresses(tokens: Sequence[Token]) -> int:
    """Return the number of strings in an expression that are not regions."""
    count, subject = 0, ""
    for token in tokens:
        if token.kind == "name":
            subject = token.text
        elif token.text in ("||", "&&"):
            subject = ""
        count += token.kind == "string" and subject != SERVER_REGION
    return count


def unquote(text: str) -> str:
    """Return the value of a string. Raises UnsupportedPolicy if CEL lacks one of its escape sequences."""
    return re.sub(_ESCAPE, _unescape, text[1:-1], flags=re.DOTALL)


def quote(text: str) -> str:
    """Return a text of a document for an error: quoted, shortened, and in ASCII."""
    return json.dumps(_shorten(text))


def show(token: Token) -> str:
    """Return a token for an error, shortened, and in ASCII."""
    return _shorten(token.text).encode("ascii", "backslashreplace").decode() or "the end"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read_tokens(text: str) -> Iterator[Token]:
    start, pattern = 0, re.compile(_WORD, re.VERBOSE | re.ASCII)  # here, because few processes read a policy
    while start < len(text):
        found = pattern.match(text, start)
        if found is None:
            word = re.split(r"\s", text[start : start + _SHOWN])[0]
            raise UnsupportedPolicy(f"{quote(word)} at character {start} is not supported by this version.")
        if found.lastgroup != "blank":
            yield Token(found.lastgroup, found[0], start)  # type: ignore[arg-type]  # the groups are its kinds
        start = found.end()


def _measure_depth(tokens: Sequence[Token]) -> int:
    """Return how deep brackets and negations are nested. A loop, since the text can be hostile."""
    opened: list[int] = []
    negations = depth = deepest = 0
    for token in tokens:
        if token.kind != "sign":
            negations = 0
        elif token.text == "!":
            negations += 1
        elif token.text in ("(", "["):
            opened.append(negations + 1)
            depth, negations = depth + negations + 1, 0
        elif token.text in (")", "]") and opened:
            depth -= opened.pop()
        deepest = max(deepest, depth + negations)
    return deepest


def _unescape(found: re.Match[str]) -> str:
    *hexadecimal, octal, other = found.groups()
    if other:
        character = _ESCAPED.get(other, "")
    else:
        code = int(octal, 8) if octal else int("".join(filter(None, hexadecimal)), 16)
        character = chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else ""
    if not character:
        raise UnsupportedPolicy(f"{quote(found[0])} is not an escape sequence.")
    return character
