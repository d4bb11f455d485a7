"""Files for their owner's eyes only, which are whole whenever they are there."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write(file: Path, text: str) -> None:
    """Put a file in the place of what is there, a link included, which is not followed. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False) as new:  # of mode 0600
        try:
            new.write(text)
            new.flush()
            os.replace(new.name, file)
        except BaseException:
            os.unlink(new.name)
            raise
