"""The counters find what they count: a planted case of each."""

import pytest

from chalicelib import clock, domains
from tests.readability import language, sizes, unclear_names
from tests.readability.crossings import Trace, trace_calls
from tests.readability.edge_change import Traces
from tests.readability.language import Text


@pytest.mark.parametrize(
    "text",
    [
        "Tell whether a text is an id.",
        "Return the account of whom it is.",
        "Make the list anew.",
        "Return the name, or None where there is none.",
        "Return what events tell.",
        "Nothing is to be done.",
    ],
)
def test_unclear_texts_are_marked(text: str) -> None:
    assert language.is_marked(text)


@pytest.mark.parametrize(
    "text",
    [
        "Return whether a text is an id.",
        "Return the account, or None.",
        "Send the TLS hello while the lock is held.",
        'Raise `told` and "tell" as they are: names of code and quotations do not count.',
    ],
)
def test_plain_texts_are_not_marked(text: str) -> None:
    assert not language.is_marked(text)


def test_docstrings_are_first_paragraphs() -> None:
    source = '"""One file."""\n\n\ndef name() -> None:\n    """Return a name.\n\n    Details.\n    """\n'
    assert [*language.docstrings("a.py", source)] == [Text("a.py:1", "One file."), Text("a.py:4", "Return a name.")]


def test_comment_lines_that_follow_each_other_are_one_comment() -> None:
    source = "# One\n# comment.\nvalue = 1  # Another.\n"
    assert [*language.comments("a.py", source)] == [Text("a.py:1", "One comment."), Text("a.py:3", "Another.")]


def test_sentences_are_read_without_code_and_with_table_cells() -> None:
    page = "# A heading of the page\n\nOne sentence is here. Another one is here.\n\n```sh\nmake it so now\n```\n\n"
    page += "| `NAME` | a cell of the table |\n"
    assert [text.words for text in language.sentences("a.md", page)] == [
        "A heading of the page",
        "One sentence is here.",
        "Another one is here.",
        "a cell of the table",
    ]


def test_first_sentences_are_measured_in_words() -> None:
    assert language.first_sentence_words([Text("", "One two three. Four."), Text("", "One")]) == 2


def test_sizes_are_found() -> None:
    sources = {"a/one.py": "def f():\n    '''Text.'''\n    a = 1\n    return a\n", "a/two.py": "", "b/__init__.py": ""}
    assert sizes.crowded_folders(sources, 1) == {"a": 2}
    assert sizes.crowded_folders(sources, 2) == {}
    assert sizes.long_files(sources, 3) == {"a/one.py": 4}
    assert sizes.long_files(sources, 4) == {}
    assert sizes.long_bodies(sources, 1) == {"a/one.py:1 f": 2}
    assert sizes.long_bodies(sources, 2) == {}


def test_names_that_occur_twice_are_found() -> None:
    sources = {"a/x.py": "class A: pass\nclass Create: pass\n", "b/x.py": "class A: pass\nclass Create: pass\n"}
    assert sizes.repeated_classes(sources) == {"A": ["a/x.py", "b/x.py"]}
    assert sizes.repeated_files([*sources, "a/__init__.py", "b/__init__.py"]) == {"x.py": ["a/x.py", "b/x.py"]}


def test_names_that_do_not_say_what_a_value_is_are_found() -> None:
    source = (
        "class A:\n    it: int = 1\ndef _found(held):\n    self.kept = [it for it in edges]\n    return found.made\n"
    )
    assert unclear_names.count({"a.py": source}) == {"a.py it": 2, "a.py found": 1, "a.py held": 1, "a.py kept": 1}


def test_imports_of_tests_and_mirrored_paths_are_found() -> None:
    sources = {
        "tests/a/test_x.py": "from tests.a.test_y import one\n",
        "tests/a/test_y.py": "from tests.a import two\n",
    }
    assert sizes.imports_of_tests(sources) == ["tests/a/test_x.py"]
    assert sizes.find_mirrored(["chalicelib/a/x.py", "chalicelib/b/x.py", "a/y.py"], sources) == {
        "chalicelib/a/x.py",
        "a/y.py",
    }


def test_a_file_that_two_steps_of_a_change_enter_counts_once() -> None:
    traces = Traces(Trace(("a", "b")), Trace(("b", "a", "b")), Trace(("c",)))
    assert (traces.files, traces.read.files, traces.read.crossings) == (3, 2, 2)


def test_calls_into_other_files_are_crossings() -> None:
    trace = trace_calls(lambda: (clock.now(), domains.normalize("a.example"), clock.now()), "chalicelib")
    assert trace.files == 2
    assert trace.crossings >= 2
    assert trace_calls(clock.now, "edge").files == 0
