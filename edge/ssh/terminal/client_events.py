"""The events that SSH clients receive. This file does no I/O.

A terminal shows an event as a line for people. The SSH subsystem `events` sends it as a JSON object for programs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Fields: TypeAlias = Mapping[str, str | int | float | bool | None]


class Event(Protocol):
    """An event that is shown to the user of an SSH connection."""

    @property
    def line(self) -> str:
        """Return the line for a terminal."""

    @property
    def fields(self) -> Fields:
        """Return the fields of the JSON object that the subsystem `events` sends.

        The subsystem does not send an event without fields.
        """


@dataclass(frozen=True)
class Opened:
    """A tunnel is online. For a TCP tunnel, the event is sent again when a refused port has opened."""

    line: str
    id: str
    url: str
    proto: str
    is_reserved: bool

    @property
    def fields(self) -> Fields:
        return {
            "event": "opened",
            "id": self.id,
            "url": self.url,
            "proto": self.proto,
            "reserved": self.is_reserved,
        }


@dataclass(frozen=True)
class Refused:
    """A refused request for a tunnel. `is_final` is true if the same request would be refused again."""

    line: str
    code: str
    is_final: bool

    @property
    def fields(self) -> Fields:
        return {"event": "refused", "code": self.code, "message": self.line, "final": self.is_final}


@dataclass(frozen=True)
class Ended:
    """A tunnel that has ended while its connection continues."""

    line: str
    id: str

    @property
    def fields(self) -> Fields:
        return {"event": "ended", "id": self.id, "message": self.line}


@dataclass(frozen=True)
class Notice:
    """A sentence for the user. `retry_after` is the number of seconds to wait before connecting again, or None."""

    line: str
    retry_after: float | None = None

    @property
    def fields(self) -> Fields:
        after = {} if self.retry_after is None else {"retry_after": self.retry_after}
        return {"event": "notice", "message": self.line, **after}


@dataclass(frozen=True)
class AnsweredRequest:
    """An HTTP request and its response. `status` is None if there was no response. `at` is an RFC 3339 time."""

    at: str
    client: str
    method: str
    path: str
    status: int | None
    milliseconds: int

    @property
    def line(self) -> str:
        outcome = "no answer" if self.status is None else f"{self.status}  {self.milliseconds} ms"
        return f"{self.client}  {self.method} {self.path}  {outcome}"

    @property
    def fields(self) -> Fields:
        return {
            "event": "request",
            "at": self.at,
            "client": self.client,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": self.milliseconds,
        }


@dataclass(frozen=True)
class StreamEnded:
    """A visitor's TLS or TCP connection has ended.

    Terminals show this event, but the subsystem `events` does not send it.
    """

    line: str

    @property
    def fields(self) -> Fields:
        return {}
