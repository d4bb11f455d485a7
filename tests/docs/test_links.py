"""Every "SPEC n.m" leads to a number of the specification; every link and path in the documents leads to a file."""

import re
from itertools import chain
from pathlib import Path, PurePosixPath

from tests.conftest import ROOT
from tests.docs.repository import CACHES, GENERATED, files

CACHES |= {"__pycache__", "node_modules"}
SUFFIXES = (".in", ".json", ".md", ".png", ".py", ".svg", ".toml", ".txt", ".yaml", ".yml")

_NUMBER = r"[1-9](?:\.[0-9]+)*"
_REFERENCE = re.compile(rf"SPEC ({_NUMBER}(?:(?:, | and |–){_NUMBER})*)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"\.?[\w-]+(?:[./][\w.-]+)*/?")


def text(file: PurePosixPath) -> str:
    """Return a file's text, or "" for a picture."""
    try:
        return (ROOT / file).read_text()
    except UnicodeDecodeError:
        return ""


FILES = list(files())
PAGES = [file for file in FILES if file.suffix == ".md"]


def sections() -> set[str]:
    """Return the numbers of the specification: of its sections, and of the rules in them (`5.4`)."""
    numbers, section = set(), ""
    for line in (ROOT / "docs" / "specification.md").read_text().splitlines():
        if heading := re.match(rf"#+ ({_NUMBER})\.? ", line):
            section = heading[1]
            numbers.add(section)
        elif rule := re.match(r"([0-9]+)\. ", line):
            numbers.add(f"{section}.{rule[1]}")
    return numbers


def references() -> set[tuple[str, str]]:
    """Return each number that follows "SPEC" in the repository, with the file where it stands."""
    return {
        (number, str(file))
        for file in FILES
        for reference in _REFERENCE.findall(text(file))
        for number in re.findall(_NUMBER, reference)
    }


def prose(page: PurePosixPath) -> str:
    return _FENCED.sub("", text(page))


def anchors(page: Path) -> set[str]:
    """Return the fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: PurePosixPath, link: str) -> bool:
    path, _, fragment = link.partition("#")
    target = ROOT / page.parent / path if path else ROOT / page
    return target.exists() and (not fragment or fragment in anchors(target))


# The end of any path counts: `data.yaml` and `resources/` are found where they are, wherever that is.
TREE = set(chain(FILES, *(file.parents for file in FILES))) - {PurePosixPath(".")}
ENDS = {"/".join(path.parts[start:]) for path in TREE for start in range(len(path.parts))}
FOLDERS = {path.name for path in TREE - {*FILES}}


def looks_like_a_path(code: str) -> bool:
    if not _PATH.fullmatch(code) or code.startswith(GENERATED):
        return False
    return ("/" in code and code.split("/")[0] in FOLDERS) or PurePosixPath(code).suffix in SUFFIXES


def test_every_number_of_the_specification_that_is_named_exists() -> None:
    numbers = sections()
    assert {"1", "2.3.1", "2.3.1.6", "4.8", "5.4", "9.3"} <= numbers
    assert {number for number, _ in references()} >= {"1", "2.3.1", "2.9", "4.8", "5.4"}
    assert sorted((number, file) for number, file in references() if number not in numbers) == []


def test_every_link_in_the_documents_leads_to_a_file() -> None:
    links = [(str(page), link) for page in PAGES for link in _LINK.findall(prose(page))]
    relative = [(page, link) for page, link in links if not re.match(r"[a-z]+:", link)]
    assert ("README.md", "docs/guide.md") in relative
    assert [link for link in relative if not leads_somewhere(PurePosixPath(link[0]), link[1])] == []


def test_every_path_in_the_documents_exists() -> None:
    codes = [(str(page), code) for page in PAGES for code in _CODE.findall(prose(page))]
    paths = [(page, code) for page, code in codes if looks_like_a_path(code)]
    assert ("CONTRIBUTING.md", "chalicelib/resources/") in paths
    assert [(page, code) for page, code in paths if code.rstrip("/") not in ENDS] == []


def test_every_document_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    following = [ROOT / "README.md"]
    while following:
        page = following.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            links = [link.partition("#")[0] for link in _LINK.findall(_FENCED.sub("", page.read_text()))]
            following += [(page.parent / link).resolve() for link in links if link and not re.match("[a-z]+:", link)]
    assert {ROOT / page for page in PAGES} - reached == set()
