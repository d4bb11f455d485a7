"""Opens a text, which can contain secrets, in the user's editor."""

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import click


def edit(text: str, name: str) -> str | None:
    """Return the edited text, or None if the editor saved nothing. Raises click.Abort if Ctrl-C ended the editor.

    The file `name` is in a folder that only this user can read. The folder is removed with everything that the editor
    has left there. Ctrl-C reaches this process too, but editors such as vim use it, so this function waits until the
    editor has ended.
    """
    interrupts: list[int] = []
    with TemporaryDirectory(prefix="te-") as folder:
        file = Path(folder) / name
        file.write_bytes(text.encode())
        os.utime(file, (1, 1))
        before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
        try:
            click.edit(filename=str(file))
        except click.ClickException:
            if interrupts:
                raise click.Abort from None
            raise
        finally:
            signal.signal(signal.SIGINT, before)
        if file.stat().st_mtime == 1:
            return None
        return file.read_text(encoding="utf-8-sig")
