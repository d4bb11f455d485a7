"""Counts names that do not say what a value is: pronouns, participles and vague words. Names of values are nouns."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

_PRONOUNS = {
    "it",
    "its",
    "this",
    "that",
    "these",
    "those",
    "one",
    "ones",
    "some",
    "others",
    "own",
    "who",
    "what",
    "where",
}
_PARTICIPLES = {
    "asked",
    "found",
    "given",
    "gone",
    "heard",
    "held",
    "kept",
    "known",
    "left",
    "made",
    "seen",
    "told",
    "wanted",
}
_VAGUE = {"every", "holder", "holders", "how", "most", "place", "places", "whole"}
NAMES = _PRONOUNS | _PARTICIPLES | _VAGUE


def count(sources: Mapping[str, str]) -> Counter[str]:
    """Return how often each unclear name is bound, by "file name", in Python sources by file."""
    return Counter(f"{file} {name}" for file, source in sources.items() for name in _bound(source) if name in NAMES)


def _bound(source: str) -> Iterator[str]:
    """Yield the names of variables, parameters and attributes where a value is bound to them."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name.strip("_")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name.strip("_")
