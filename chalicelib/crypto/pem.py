"""PEM (RFC 7468): labelled blocks of base64. Other text may surround them, with any line endings."""

import base64
import re
from dataclasses import dataclass, field

_BOUNDARY = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----")
_COLUMNS = 64


@dataclass(frozen=True)
class Block:
    """A block of PEM. `body` is the text between the BEGIN and END lines, which may contain a secret."""

    label: str
    body: str = field(repr=False)

    @property
    def is_encrypted(self) -> bool:
        """Return whether the block has the header of encrypted keys in OpenSSL's traditional format."""
        return "Proc-Type" in self.body and "ENCRYPTED" in self.body

    def decode(self) -> bytes:
        """Return the bytes that the block encodes. Raises ValueError if the base64 is damaged."""
        try:
            return base64.b64decode("".join(self.body.split()), validate=True)
        except ValueError:
            raise ValueError(
                "must be intact PEM: the text between a BEGIN and an END line is not base64; "
                "send the file unchanged, with its line breaks"
            ) from None


def blocks(text: str) -> list[Block]:
    """Return the blocks of a text, in order. Raises ValueError if a block is incomplete."""
    before, *parts = _BOUNDARY.split(text)
    parsed_blocks = []
    kinds, labels, bodies = parts[::3], parts[1::3], parts[2::3]
    for i in range(0, len(kinds), 2):
        if kinds[i : i + 2] != ["BEGIN", "END"] or labels[i] != labels[i + 1]:
            raise _cut_off()
        parsed_blocks.append(Block(labels[i], bodies[i]))
    if any("-----BEGIN" in around or "-----END" in around for around in (before, *bodies[1::2])):
        raise _cut_off()
    return parsed_blocks


def encode(label: str, content: bytes) -> str:
    """Return bytes as a PEM block with a label. The block ends with a newline."""
    text = base64.b64encode(content).decode()
    lines = [text[start : start + _COLUMNS] for start in range(0, len(text), _COLUMNS)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


def _cut_off() -> ValueError:
    return ValueError("must be complete PEM: each BEGIN line needs its END line, and each END line its BEGIN line")
