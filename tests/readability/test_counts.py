"""The bounds of the code's size and language. They only become tighter: change the code, not a bound."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests import samples
from tests.conftest import ROOT
from tests.readability import code, edge_change, language, sizes, unclear_names
from tests.readability.crossings import trace_calls
from tests.readability.language import Text
from tests.transports import Client

# Files entered, and calls from one file into another.
CREATE, READ, CERTIFICATE = (20, 60), (16, 41), (32, 105)
# The same of a changed route: reading its records, and building resources for Envoy, which should be (18, 150).
READ_OF_EDGE, BUILD_FOR_ENVOY = (24, 186), (28, 145)
TO_ENVOY = 69  # files from the API to Envoy
# Percentages of texts that match a pattern of `language`.
DOCSTRINGS, COMMENTS, SENTENCES, DESCRIPTIONS = 1.0, 1.5, 3.0, 1.0
FIRST_SENTENCE = 10.6  # words, on average
UNCLEAR_NAMES = {"product": 40, "tests": 182}  # variables, parameters, attributes and functions
PAGES = {"CONTRIBUTING.md": 1200, "bench/README.md": 2000}  # words
FILES_IN_A_FOLDER = 14  # without __init__.py
LINES_OF_A_FILE, LINES_OF_A_BODY = 300, 25
REPEATED_CLASSES = {"chalicelib": 0, "cli": 0, "edge": 0, "terraform": 0}
REPEATED_FILES = {"chalicelib/model": 0, "edge": 0}
IMPORTS_OF_TESTS = 10  # test files that import from another one, without those of clients
MIRRORED = 0.754  # of the product's files have a test at the same path below tests/


def test_a_create_enters_few_files(admin: Client) -> None:
    admin = _without_check(admin)
    admin.create("/backends/http_response", {"status_code": 404})
    trace = trace_calls(lambda: admin.create("/backends/http_response", {"status_code": 404}), "chalicelib")
    assert (trace.files <= CREATE[0], trace.crossings <= CREATE[1]) == (True, True), (trace.files, trace.crossings)


def test_a_read_enters_few_files(admin: Client) -> None:
    admin = _without_check(admin)
    path = f"/backends/http_response/{admin.create('/backends/http_response', {'status_code': 404})['id']}"
    admin.get(path)
    trace = trace_calls(lambda: admin.get(path), "chalicelib")
    assert (trace.files <= READ[0], trace.crossings <= READ[1]) == (True, True), (trace.files, trace.crossings)


def test_signing_a_certificate_enters_few_files(admin: Client) -> None:
    admin = _without_check(admin)
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key(), "principals": ["root"]}
    admin.create("/ssh_user_certificates", body)
    trace = trace_calls(lambda: admin.create("/ssh_user_certificates", body), "chalicelib")
    counts = (trace.files, trace.crossings)
    assert (counts[0] <= CERTIFICATE[0], counts[1] <= CERTIFICATE[1]) == (True, True), counts


def test_a_changed_route_enters_few_files(admin: Client) -> None:
    traces = edge_change.trace(_without_check(admin))
    for trace, bound in ((traces.read, READ_OF_EDGE), (traces.build, BUILD_FOR_ENVOY)):
        assert (trace.files <= bound[0], trace.crossings <= bound[1]) == (True, True), (trace.files, trace.crossings)
    assert traces.files <= TO_ENVOY


def test_folders_files_and_functions_are_small() -> None:
    sources = code.sources(*code.SHIPPED, "cli/*.py", "terraform/*.py")
    assert sizes.crowded_folders(sources, FILES_IN_A_FOLDER) == {}
    assert sizes.long_files(sources, LINES_OF_A_FILE) == {}
    assert sizes.long_bodies(sources, LINES_OF_A_BODY) == {}


@pytest.mark.parametrize("package", REPEATED_CLASSES)
def test_a_class_name_stands_for_one_class(package: str) -> None:
    repeated = sizes.repeated_classes(code.sources(f"{package}/*.py"))
    assert len(repeated) <= REPEATED_CLASSES[package], repeated


@pytest.mark.parametrize("folder", REPEATED_FILES)
def test_a_file_name_stands_for_one_file(folder: str) -> None:
    repeated = sizes.repeated_files(code.sources(f"{folder}/*.py"))
    assert len(repeated) <= REPEATED_FILES[folder], repeated


def test_tests_import_no_other_tests() -> None:
    imports = sizes.imports_of_tests(code.sources("tests/*.py"))
    files = [file for file in imports if not file.startswith("tests/clients/")]
    assert len(files) <= IMPORTS_OF_TESTS, files


def test_many_files_have_a_test_at_the_same_path() -> None:
    product = [file for file in code.sources(*code.SHIPPED) if not file.endswith(("__init__.py", "__main__.py"))]
    without = {*product} - sizes.find_mirrored(product, code.sources("tests/*.py"))
    assert 1 - len(without) / len(product) >= MIRRORED, sorted(without)


@pytest.mark.parametrize(
    ("texts", "bound"),
    [
        pytest.param(lambda: code.docstrings(*code.PRODUCT), DOCSTRINGS, id="docstrings"),
        pytest.param(lambda: code.comments(*code.PRODUCT), COMMENTS, id="comments"),
        pytest.param(code.sentences, SENTENCES, id="pages"),
        pytest.param(code.descriptions, DESCRIPTIONS, id="descriptions"),
    ],
)
def test_texts_are_plain(texts: Callable[[], list[Text]], bound: float) -> None:
    all_texts = texts()
    marked = language.find_marked(all_texts)
    assert 100 * len(marked) / len(all_texts) <= bound, "\n".join(
        f"{text.location}: {text.words}" for text in marked[:20]
    )


def test_first_sentences_of_docstrings_are_short() -> None:
    words = language.first_sentence_words(code.docstrings(*code.PRODUCT))
    assert words <= FIRST_SENTENCE


@pytest.mark.parametrize(("part", "patterns"), [("product", code.PRODUCT), ("tests", ("tests/*.py",))])
def test_names_say_what_a_value_is(part: str, patterns: Sequence[str]) -> None:
    counts = unclear_names.count(code.sources(*patterns))
    assert counts.total() <= UNCLEAR_NAMES[part], counts.most_common(20)


@pytest.mark.parametrize(("page", "words"), PAGES.items(), ids=PAGES)
def test_pages_for_contributors_are_short(page: str, words: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= words


def _without_check(client: Client) -> Client:
    """Return the client without its check of answers, which calls functions of the product too."""
    return replace(client, check=lambda *_: None)
