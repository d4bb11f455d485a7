"""Encoded resources with their versions, and Envoy's answers about them.

The encoding of a resource is the concatenation of its parts' encodings, which protocol buffers decode as one message.
"""

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from edge.envoy.resources import MESSAGES, Changes, Kind

TYPES = {kind: f"type.googleapis.com/{message.DESCRIPTOR.full_name}" for kind, message in MESSAGES.items()}


class Name(NamedTuple):
    kind: Kind
    name: str


@dataclass(frozen=True)
class Encoded:
    """An encoded resource, or an encoded part of a resource, with the digest of the encoding."""

    digest: int
    value: bytes


class Parts:
    """The parts of a resource, in any order.

    `digest` is the XOR of their hashes, so that after a change only one part is hashed.
    """

    def __init__(self) -> None:
        self.digest = 0
        self._encoded: dict[str, Encoded] = {}

    @property
    def is_whole(self) -> bool:
        return "" in self._encoded

    def encoding(self, part: str) -> bytes | None:
        """Return the encoding of a part, or None if the resource lacks this part."""
        encoded = self._encoded.get(part)
        return encoded.value if encoded else None

    def put(self, part: str, encoded: Encoded) -> None:
        """Add or replace a part of the resource."""
        before = self._encoded.get(part)
        self.digest ^= encoded.digest ^ (before.digest if before else 0)
        self._encoded[part] = encoded

    def drop(self, part: str) -> None:
        """Remove a part of the resource, if it exists."""
        if before := self._encoded.pop(part, None):
            self.digest ^= before.digest

    def join(self) -> bytes:
        """Return the encoding of the whole resource, with all parts."""
        return b"".join(part.value for part in self._encoded.values())


@dataclass(frozen=True)
class Answer:
    """Envoy's answer about a version of a resource. `error` is "" if Envoy has accepted the version."""

    version: str
    error: str


class Catalog:
    """All resources, and the latest answer of each Envoy (its stream) about each resource.

    `key` is the key of the hashes. The key is secret, because otherwise accounts could choose names so that digests
    cancel each other out.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.is_complete = True  # whether to remove resources that Envoy has and the catalog lacks
        self.has_all_listeners = True  # whether to send listeners to Envoy
        # Answers by stream. When the last open stream ends, its answers are stored with the key None.
        self._answers: dict[Hashable, dict[Name, Answer]] = {}
        self._parts: dict[Name, Parts] = {}

    def apply(self, changes: Changes) -> list[Name]:
        """Apply changes. Return the names of the resources that are different now."""
        before = {name: self._digest(name) for name in (Name(key.kind, key.name) for key in changes)}
        for key, resource in changes.items():
            parts = self._parts.setdefault(Name(key.kind, key.name), Parts())
            if resource is None:
                parts.drop(key.part)
            elif parts.encoding(key.part) != resource.encoded:  # often equal, because many names share clusters
                parts.put(key.part, self._sign(resource.encoded))
        for name in before:
            self._drop_if_partial(name)
        return [name for name, digest in before.items() if digest != self._digest(name)]

    def restore(self, name: Name, value: bytes | None) -> None:
        """Replace a resource with its earlier encoding `value`. If `value` is None, remove the resource."""
        parts = self._parts[name] = Parts()
        if value is not None:
            parts.put("", self._sign(value))
        self._drop_if_partial(name)

    def version(self, name: Name) -> str | None:
        """Return the version of a resource, or None if the resource does not exist.

        After a restart, the same content has the same version, so Envoy does not receive the content again.
        """
        digest = self._digest(name)
        return None if digest is None else f"{digest:032x}"

    def value(self, name: Name) -> bytes:
        """Return the encoding of a resource. Raises KeyError if it does not exist."""
        return self._parts[name].join()

    def find_value(self, name: Name) -> bytes | None:
        """Return the encoding of a resource, or None if the resource does not exist."""
        return self._parts[name].join() if name in self._parts else None

    def names(self, kind: Kind) -> Iterable[Name]:
        """Return the names of all resources of a kind."""
        return [name for name in self._parts if name.kind == kind]

    def begin_stream(self, stream: Hashable) -> None:
        """Add a stream.

        If no other stream is open, the new stream takes over the answers of the stream that ended last, because the
        same Envoy can have connected again.
        """
        self._answers[stream] = self._answers.pop(None, {})

    def end_stream(self, stream: Hashable) -> set[Name]:
        """Forget the answers of a stream, and return the resources that the stream's Envoy has rejected.

        If no other stream is open, keep the answers for the next stream, and return nothing.
        """
        answers = self._answers.pop(stream)
        if not self._answers:
            self._answers[None] = answers
            return set()
        return {name for name, answer in answers.items() if answer.error}

    def add_answer(self, stream: Hashable, name: Name, answer: Answer) -> bool:
        """Store a stream's answer about a resource. Return whether it differs from the earlier answer."""
        answers = self._answers[stream]
        is_new, answers[name] = answers.get(name) != answer, answer
        return is_new

    def current_answer(self, name: Name) -> Answer | None:
        """Return an answer about the current version of a resource, or None.

        If any Envoy reports an error, return the answer with this error.
        """
        version = self.version(name)
        current = [
            answer for answers in self._answers.values() if (answer := answers.get(name)) and answer.version == version
        ]
        return next((answer for answer in current if answer.error), current[0] if current else None)

    def refusal(self, name: Name) -> str:
        """Return the error that an Envoy has reported about the current version of a resource, or ""."""
        answer = self.current_answer(name)
        return answer.error if answer else ""

    def _sign(self, value: bytes) -> Encoded:
        digest = hashlib.blake2b(value, digest_size=16, key=self._key).digest()
        return Encoded(int.from_bytes(digest), value)

    def _digest(self, name: Name) -> int | None:
        parts = self._parts.get(name)
        return parts.digest if parts else None

    def _drop_if_partial(self, name: Name) -> None:
        """Remove a resource that has lost its main part. The other parts only add fields to the main part."""
        if not self._parts[name].is_whole:
            del self._parts[name]
            for answers in self._answers.values():
                answers.pop(name, None)
