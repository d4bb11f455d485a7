"""The interfaces that a relay uses: its two ends, the objects that receive the relayed bytes, and timers."""

from collections.abc import Callable
from typing import Protocol, TypeAlias


class End(Protocol):
    """An end of a relay: the connection from Envoy, or the channel to the SSH client."""

    def write(self, data: bytes) -> None: ...
    def write_eof(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool: ...
    def get_write_buffer_size(self) -> int: ...
    def set_write_buffer_limits(self, high: int) -> None: ...


class Observer(Protocol):
    """Receives a copy of the bytes that a relay passes, in both directions."""

    def on_request(self, data: bytes) -> None: ...
    def on_response(self, data: bytes) -> None: ...
    def on_close(self) -> None: ...


class Exchange(Protocol):
    """Receives a copy of the relayed bytes, and follows the HTTP/1 requests and responses in them, if any."""

    @property
    def is_requesting(self) -> bool:
        """Return whether the visitor's current request is incomplete."""

    def on_request(self, data: bytes) -> None: ...
    def on_response(self, data: bytes) -> bool:
        """Return whether the relay must delay these bytes until the request is complete."""

    def on_close(self) -> None: ...


class Timer(Protocol):
    """A scheduled call, which can be cancelled."""

    def cancel(self) -> None: ...


# a function that schedules a call. Parameters: the seconds to wait, and the function to call
CallLater: TypeAlias = Callable[[float, Callable[[], None]], Timer]
