"""PEM (RFC 7468): labelled blocks of base64 in a text, whatever stands around them and however its lines end."""

import base64
import re
from dataclasses import dataclass, field

_BOUNDARY = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----")
_COLUMNS = 64


@dataclass(frozen=True)
class Block:
    """The label and the base64 between a BEGIN and an END line, not yet decoded; it may be a secret."""

    label: str
    body: str = field(repr=False)

    @property
    def is_encrypted(self) -> bool:
        """Tell whether its header says so, as in keys of OpenSSL's traditional form."""
        return "Proc-Type" in self.body and "ENCRYPTED" in self.body

    def decode(self) -> bytes:
        """Return the bytes of the block. Raises ValueError if they are damaged."""
        try:
            return base64.b64decode("".join(self.body.split()), validate=True)
        except ValueError:
            raise ValueError(
                "must be undamaged PEM: between a BEGIN and an END line stands what is not base64; "
                "send the file as it is, with its line breaks"
            ) from None


def blocks(text: str) -> list[Block]:
    """Return the blocks in a text, in order, without the text around them. Raises ValueError if one is cut off."""
    before, *parts = _BOUNDARY.split(text)
    found = []
    kinds, labels, bodies = parts[::3], parts[1::3], parts[2::3]
    for i in range(0, len(kinds), 2):
        if kinds[i : i + 2] != ["BEGIN", "END"] or labels[i] != labels[i + 1]:
            raise _cut_off()
        found.append(Block(labels[i], bodies[i]))
    if any("-----BEGIN" in around or "-----END" in around for around in (before, *bodies[1::2])):
        raise _cut_off()
    return found


def encode(label: str, content: bytes) -> str:
    """Return a block with a final newline."""
    text = base64.b64encode(content).decode()
    lines = [text[start : start + _COLUMNS] for start in range(0, len(text), _COLUMNS)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


def _cut_off() -> ValueError:
    return ValueError("must be whole PEM: every BEGIN line needs its END line; the text seems to be cut off")
