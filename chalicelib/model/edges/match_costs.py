"""The worst cost of an RE2 pattern: the instructions of the compiled pattern that RE2 runs for each byte of a text.

For each byte, RE2 advances all partial matches: places in the text at which a match may have begun. So a pattern costs
at most the number of its instructions, and less if a text can have only few partial matches at the same time. For
example, `a[ab]{300}X` costs 300, but a pattern that is an ordinary sentence only a few.
"""

import re
from functools import cache
from itertools import accumulate
from typing import Any

_ONE = (
    r"\\[dDsSwW]|\\[!-/:-@\[-`{-~]"  # a class such as \d, or an escaped character
    r"|\[\^?[^]\[\\]+\]"  # a class in brackets, without escaped characters
    r"|[^\\^$.|?*+()\[\]{}]|\."
)
_TOKENS = rf"(?s)({_ONE})([*+?]\??)?"
_SEQUENCE = rf"\^*(?:(?:{_ONE})(?:[*+?]\??)?)*\$*"
_SIMPLE = rf"(?s)(\(\?i\))?({_SEQUENCE}(?:\|{_SEQUENCE})*)"
_ALTERNATIVE = rf"(?s)\^*((?:(?:{_ONE})(?:[*+?]\??)?)*)\$*(?:\||\Z)"
_REPEATED = 3  # instructions per byte that an element costs if *, + or ? follows it


class Uncompilable(ValueError):
    """RE2 cannot compile a pattern; the message gives the reason."""


def compile_pattern(pattern: str) -> Any:
    """Return the compiled program of a pattern. Raises Uncompilable."""
    import re2

    try:
        return re2.compile(pattern.encode(), _options())
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise Uncompilable(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def program_size(pattern: str) -> int:
    """Return the number of instructions in the compiled program of a pattern. Raises Uncompilable."""
    return int(compile_pattern(pattern).programsize)


def matching_cost(pattern: str) -> int:
    """Return the worst cost of a pattern, in instructions per byte. Raises Uncompilable."""
    program = program_size(pattern)
    match = re.fullmatch(_SIMPLE, pattern.encode().decode("latin-1"))
    if not match:
        return program
    flag, text = match[1] or "", match[2]
    return min(program, sum(_sequence_cost(alternative[1], flag) for alternative in re.finditer(_ALTERNATIVE, text)))


def _sequence_cost(text: str, flag: str) -> int:
    """Return the worst cost of `text`, a pattern without alternatives and groups, in instructions per byte."""
    total, piece = 1, list[int]()
    for token, repetition in re.findall(_TOKENS, text):
        if repetition:
            total, piece = total + _simultaneous_steps(piece) + _REPEATED, []
        else:
            piece.append(_matching_bytes(token, flag))
    return total + _simultaneous_steps(piece)


def _simultaneous_steps(piece: list[int]) -> int:
    """Return the largest number of partial matches of a piece that a text can have at the same time.

    `piece` is a part of a pattern without repetitions: a list of its elements, such as letters and classes. Each
    element is a bit set of the bytes that it matches. Two partial matches that began at different bytes compare the
    next byte with different elements. Both can continue only if some byte is in both bit sets. The number includes the
    empty match, which can begin at the next byte.
    """
    changes = [1, *(0 for _ in piece)]
    for shift in range(1, len(piece)):
        run = shift
        while run < len(piece) and piece[run] & piece[run - shift]:
            run += 1
        changes[shift] += 1
        changes[run] -= 1
    return 1 + max(accumulate(changes))


@cache
def _matching_bytes(token: str, flag: str) -> int:
    """Return the bytes that a literal or class matches, as a bit set."""
    import re2

    expression = re2.compile(f"{flag}(?s:{token})".encode("latin-1"), _options())
    return sum(1 << value for value in range(256) if expression.fullmatch(bytes([value])))


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # Envoy compiles patterns with the same encoding
    options.log_errors = False  # if True, RE2 would log the patterns that it cannot compile
    options.max_mem = 1024 * 1024
    return options
