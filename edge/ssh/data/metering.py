"""Counts of the bytes and requests of a tunnel. This file does no I/O."""

import re
from dataclasses import dataclass

from chalicelib.model.tunnels.tunnels import Traffic
from edge.ssh.data.interfaces import Observer
from edge.ssh.data.responses import Response
from edge.ssh.data.visitors import Body, parse_address

_REQUEST = re.compile(rb"[A-Z]{3,20} [^ \r\n]+ HTTP/1\.[01]\r\n")


@dataclass(eq=False)
class Meter:
    """The counts of bytes and requests of one tunnel, over all its connections."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0

    def usage(self) -> Traffic:
        return Traffic(self.bytes_in, self.bytes_out, self.requests)

    def has_same_bytes(self, usage: Traffic) -> bool:
        """Return whether no bytes were counted since `usage()` returned `usage`."""
        return self.bytes_in == usage.bytes_in and self.bytes_out == usage.bytes_out


class MeteredConnection:
    """Counts the bytes and requests of one connection. Passes the bytes to an observer.

    Envoy sends a request only after the previous response, so a request can only be at the start of received data. A
    connection that is not HTTP/1 counts as one request. `address` is the visitor's address: the constructor's argument
    or, if this argument is "", the address in the latest request.
    """

    def __init__(self, meter: Meter, observer: Observer, address: str = "") -> None:
        self._meter, self._observer = meter, observer
        self._can_begin = self._is_first = True
        self.address = self._fixed_address = address
        self.body, self._response = Body(), Response()

    @property
    def is_requesting(self) -> bool:
        """Return whether the visitor's current request is incomplete."""
        return self.body.is_incomplete

    @property
    def has_request(self) -> bool:
        return not self._is_first

    def on_request(self, data: bytes) -> None:
        """Count bytes that are sent to the SSH client."""
        self._meter.bytes_in += len(data)
        if self._can_begin and (self._is_first or _REQUEST.match(data)):
            self._meter.requests += 1
            address = parse_address(data)
            self.address = self._fixed_address or address
            if address:
                self.body.begin(data)
                self._response = Response()
        elif self.body.is_incomplete:
            self.body.add(data)
        self._can_begin = self._is_first = False
        self._observer.on_request(data)

    def on_response(self, data: bytes) -> bool:
        """Count bytes from the SSH client. Return whether the relay must delay them.

        The relay must delay bytes of a response until the request is complete. While the request is incomplete, all
        bytes to the SSH client belong to this request.
        """
        self._meter.bytes_out += len(data)
        self._can_begin = not self.body.is_incomplete
        must_wait = False
        if self.body.is_incomplete:
            self.body.on_response(data)
            must_wait = self._response.must_wait(data) and not self.body.is_expecting
        self._observer.on_response(data)
        return must_wait

    def on_close(self) -> None:
        """Notify the observer of the end of the connection."""
        self._observer.on_close()
