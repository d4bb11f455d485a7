"""The end of a link at which Envoy would be."""


class Wire:
    """A transport that records what is written."""

    def __init__(self) -> None:
        self.written, self.has_ended, self.is_closed = b"", False, False

    def write(self, data: bytes) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...
