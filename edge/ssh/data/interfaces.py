"""The interfaces that a relay uses: two connections, the observers of their bytes, and timers."""

from collections.abc import Callable
from typing import Protocol, TypeAlias


class End(Protocol):
    """One of the two ends of a relay. One is the connection from Envoy, the other the channel to the SSH client."""

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
    """Receives the bytes that a relay passes in both directions."""

    def on_request(self, data: bytes) -> None: ...
    def on_response(self, data: bytes) -> None: ...
    def on_close(self) -> None: ...


class Exchange(Protocol):
    """Receives the bytes, and tracks the requests and responses if they are HTTP/1."""

    @property
    def is_requesting(self) -> bool:
        """Return whether the current request is incomplete."""

    def on_request(self, data: bytes) -> None: ...
    def on_response(self, data: bytes) -> bool:
        """Return whether the relay must hold the bytes back until their request is complete."""

    def on_close(self) -> None: ...


class Timer(Protocol):
    """A scheduled call, which can be cancelled."""

    def cancel(self) -> None: ...


# called with the seconds to wait, and the function to call
CallLater: TypeAlias = Callable[[float, Callable[[], None]], Timer]
