"""The progress of a command that reads the whole table: its folder and its reports."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])


def progress_option(command: C) -> C:
    """Add an option to a command: the folder in which the command stores its progress."""
    about = "Store the progress in this folder, and continue from there."
    path = click.Path(path_type=Path, file_okay=False)
    return click.option("--progress", "folder", type=path, metavar="FOLDER", help=about)(command)


@contextmanager
def open_progress(folder: Path | None) -> Iterator[Path]:
    """Yield the folder for the progress, or a temporary folder if the operator names none."""
    if folder:
        folder.mkdir(mode=0o700, exist_ok=True)
        yield folder
        return
    with TemporaryDirectory() as path:
        yield Path(path)


def report(sentence: str) -> None:
    """Print a sentence about the progress."""
    print(sentence, file=sys.stderr, flush=True)
