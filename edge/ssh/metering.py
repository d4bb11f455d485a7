"""The bytes and requests of a tunnel, counted as they go by. Pure."""

import re
from dataclasses import dataclass

from chalicelib.model.tunnels import Traffic
from edge.ssh.interfaces import Observer
from edge.ssh.responses import Response
from edge.ssh.visitors import Body, address_of

_REQUEST = re.compile(rb"[A-Z]{3,20} [^ \r\n]+ HTTP/1\.[01]\r\n")


@dataclass(eq=False)
class Meter:
    """The counts of one tunnel, over all its connections."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0

    def usage(self) -> Traffic:
        """Return the counts as they are now."""
        return Traffic(self.bytes_in, self.bytes_out, self.requests)

    def rests_at(self, usage: Traffic) -> bool:
        """Tell whether the counts of bytes are those of a usage: nothing has moved since."""
        return self.bytes_in == usage.bytes_in and self.bytes_out == usage.bytes_out


class Counted:
    """One connection, counted, and told to another observer.

    It begins with a request. Envoy sends a further one when the last was answered, so that it begins where a read does;
    of what is not HTTP/1 the connection counts as one. `address` is that of the visitor of the last request, or of all.
    """

    def __init__(self, meter: Meter, observer: Observer, address: str = "") -> None:
        self._meter, self._observer = meter, observer
        self._may_ask = self._is_first = True
        self.address = self._known = address
        self.body, self._response = Body(), Response()

    @property
    def is_requesting(self) -> bool:
        """Return whether the current request is incomplete."""
        return self.body.is_owed

    @property
    def has_asked(self) -> bool:
        return not self._is_first

    def asked(self, data: bytes) -> None:
        """Count what goes to the SSH client."""
        self._meter.bytes_in += len(data)
        if self._may_ask and (self._is_first or _REQUEST.match(data)):
            self._meter.requests += 1
            address = address_of(data)
            self.address = self._known or address
            if address:
                self.body.begins(data)
                self._response = Response()
        elif self.body.is_owed:
            self.body.comes(data)
        self._may_ask = self._is_first = False
        self._observer.asked(data)

    def answered(self, data: bytes) -> bool:
        """Count what comes from it. Return whether it waits for the end of its request.

        What is asked before that end is the rest of this request, never a further one.
        """
        self._meter.bytes_out += len(data)
        self._may_ask = not self.body.is_owed
        waits = False
        if self.body.is_owed:
            self.body.answered(data)
            waits = self._response.waits(data) and not self.body.is_expecting
        self._observer.answered(data)
        return waits

    def closed(self) -> None:
        """Pass the end of the connection on."""
        self._observer.closed()
