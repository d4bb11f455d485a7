"""The tokens of expressions in traffic policies, and their limits. This file does no I/O."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

CLIENT_IP, SERVER_PORT, SERVER_REGION = "conn.client_ip", "conn.server_port", "conn.server_region"
MAX_OPERATORS = 500  # the most operators in one expression
MAX_DEPTH = 32  # the most levels of nesting in an expression, and in a policy's JSON document
_WORD = r"""(?P<blank>[ \t\n\f\r]+|//[^\r\n]*)
    |(?P<string>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
    |(?P<integer>-?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![\w.]))
    |(?P<sign>\|\||&&|[=!<>]=|[!<>()\[\],]|in\b)
    |(?P<name>[a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)*)"""
_OPERATORS = frozenset(["||", "&&", "!", "==", "!=", "<", "<=", ">", ">=", "in"])
_ESCAPE = r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))"
_ESCAPED = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_SHOWN = 40  # the most characters of a policy that an error message quotes


class UnsupportedPolicy(Exception):
    """The edge cannot enforce a policy. The message gives the reason in one sentence."""


class Token(NamedTuple):
    """A token of an expression, and its position in characters."""

    kind: Literal["string", "integer", "name", "sign", "end"]
    text: str
    start: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of an expression, with an end token.

    Raises UnsupportedPolicy, also if the expression exceeds a limit.
    """
    tokens = [*_read_tokens(text), Token("end", "", len(text))]
    if sum(token.text in _OPERATORS for token in tokens if token.kind == "sign") > MAX_OPERATORS:
        raise UnsupportedPolicy(f"must have at most {MAX_OPERATORS} operators.")
    if _measure_depth(tokens) > MAX_DEPTH:
        raise UnsupportedPolicy(f"must be at most {MAX_DEPTH} levels deep.")
    return tokens


def count_addresses(tokens: Sequence[Token]) -> int:
    """Return the number of addresses and networks in an expression: its strings, except regions."""
    count, subject = 0, ""
    for token in tokens:
        if token.kind == "name":
            subject = token.text
        elif token.text in ("||", "&&"):
            subject = ""
        count += token.kind == "string" and subject != SERVER_REGION
    return count


def unquote(text: str) -> str:
    """Return the value of a string. Raises UnsupportedPolicy for an escape sequence that CEL does not have."""
    return re.sub(_ESCAPE, _unescape, text[1:-1], flags=re.DOTALL)


def quote(text: str) -> str:
    """Return a text of a policy's document as an error message quotes it: in quotation marks, shortened, in ASCII."""
    return json.dumps(_shorten(text))


def show(token: Token) -> str:
    """Return a token as an error message shows it: shortened, in ASCII."""
    return _shorten(token.text).encode("ascii", "backslashreplace").decode() or "the end"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read_tokens(text: str) -> Iterator[Token]:
    # The pattern is compiled here and not at import, because few processes parse policies.
    start, pattern = 0, re.compile(_WORD, re.VERBOSE | re.ASCII)
    while start < len(text):
        match = pattern.match(text, start)
        if match is None:
            word = re.split(r"\s", text[start : start + _SHOWN])[0]
            raise UnsupportedPolicy(f"{quote(word)} at character {start} is not supported by this version.")
        if match.lastgroup != "blank":
            yield Token(match.lastgroup, match[0], start)  # type: ignore[arg-type]  # the groups are its kinds
        start = match.end()


def _measure_depth(tokens: Sequence[Token]) -> int:
    """Return the depth of nested brackets and negations. Uses no recursion, because the text can be hostile."""
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


def _unescape(match: re.Match[str]) -> str:
    *hexadecimal, octal, other = match.groups()
    if other:
        character = _ESCAPED.get(other, "")
    else:
        code = int(octal, 8) if octal else int("".join(filter(None, hexadecimal)), 16)
        character = chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else ""
    if not character:
        raise UnsupportedPolicy(f"{quote(match[0])} is not an escape sequence.")
    return character
