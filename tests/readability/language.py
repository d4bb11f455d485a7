"""The patterns of unclear language, and counts of the texts that match one of them.

A text that matches is marked. A few marks are right as they are: the bounds allow for them.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

# First words of a docstring that do not say what a function returns or does.
OPENINGS = (
    "Tell whether",
    "Tell ",
    "Hear ",
    "Take up ",
    "Say ",
    "Have ",
    "Let ",
    "What ",
    "Who ",
    "Whose ",
    "Whether ",
    "How ",
    "Where ",
    "As any other",
    "That ",
    "It is told",
)

# Words and turns that a reader has to learn first. Words of the field, such as a TLS hello, are not among them.
TURNS = (
    r"of whom",
    r"whose",
    r"whoever",
    r"whichever",
    r"of which what",
    r"the ones? (?:that|of|which)",
    r"that of",
    r"those of",
    r"anew",
    r"nobody",
    r"nor",
    r"by itself",
    r"of its own",
    r"of their own",
    r"is to be",
    r"are to be",
    r"was to be",
    r"need not",
    r"needs no",
    r"(?:none|nothing|nobody) where",
    r"where (?:there (?:is|are)|it (?:is|has|lacks)|they (?:are|have)|none|nobody|nothing)",
    r"told",
    r"tells?",
    r"as (?:of|known)",
    r"given up",
    r"gives up",
    r"stands? for",
    r"standing",
    r"leads? to",
    r"led to",
    r"be it",
    r"rests? on",
    r"resting",
    r"speaks? to",
    r"spoken",
    r"believed?",
    r"heard?s?",
    r"come to nothing",
    r"comes to nothing",
    r"goes by",
    r"go by",
    r"let in",
    r"lets in",
    r"sent away",
    r"sends away",
    r"carried",
    r"carries",
    r"looks? at",
    r"looked at",
    r"in the place of",
    r"but for",
)

OPENING = re.compile("|".join(rf"{text}\b" if text[-1] != " " else text for text in OPENINGS))
TURN = re.compile(rf"\b(?:{'|'.join(TURNS)})\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"")
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`\"*\[])")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Text:
    """A text for people and its location, for example `edge/ssh/session.py:12`."""

    location: str
    words: str


def is_marked(text: str, *, opens: bool = True) -> bool:
    """Return whether a text matches a pattern; `opens` is false for a sentence in the middle of a text."""
    words = _CODE.sub("x", " ".join(text.split()))
    return bool(TURN.search(words)) or (opens and bool(OPENING.match(words)))


def find_marked(texts: list[Text]) -> list[Text]:
    """Return the texts that are marked."""
    return [text for text in texts if is_marked(text.words)]


def docstrings(file: str, source: str) -> Iterator[Text]:
    """Yield the first paragraph of each docstring of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if text:
                line = node.lineno if not isinstance(node, ast.Module) else 1
                yield Text(f"{file}:{line}", text.partition("\n\n")[0])


def comments(file: str, source: str) -> Iterator[Text]:
    """Yield the comments of a file; lines that follow each other are one comment."""
    last, location, words = -1, "", ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(noqa|type:|pragma|shellcheck|!)", token.string):
            continue
        text, line = token.string.lstrip("# ").strip(), token.start[0]
        if line == last + 1 and not token.line[: token.start[1]].strip():
            words = f"{words} {text}"
        else:
            if words:
                yield Text(location, words)
            location, words = f"{file}:{line}", text
        last = line
    if words:
        yield Text(location, words)


def sentences(file: str, page: str) -> Iterator[Text]:
    """Yield the sentences of a page in Markdown, table cells included, code blocks left out."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*[-*|#\d])", page)
    for paragraph in paragraphs:
        plain = _LINK.sub(r"\1", " ".join(paragraph.split()))
        for cell in plain.split(" | ") if plain.startswith("|") else [plain]:
            for sentence in _SENTENCE_END.split(cell.strip("|#*- ")):
                if len(sentence.split()) > 3:
                    yield Text(file, sentence)


def first_sentence_words(texts: list[Text]) -> float:
    """Return the average number of words in the first sentences of docstrings."""
    lengths = [len(re.split(r"[.!?](?:\s|$)", " ".join(text.words.split()))[0].split()) for text in texts]
    return sum(lengths) / len(lengths)
