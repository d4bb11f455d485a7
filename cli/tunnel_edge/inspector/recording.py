"""Runs the recorders of all connections, in short slices between the work of the relay."""

import asyncio
import time
from collections import deque

from tunnel_edge.inspector.exchanges import Exchange, Journal
from tunnel_edge.inspector.record import Recorder

_STEPS = 40  # steps in one iteration of the event loop, about a millisecond of CPU
_PERIOD = 0.02  # seconds between two rounds of work: fewer rounds cost less CPU


class Recording:
    """Records connections from copies of their bytes, which it parses later in short slices.

    So the relay, which passes the copies, does not wait for the parser.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._busy: deque[RecordedConnection] = deque()
        self._is_scheduled = False

    def open(self, client: str, replay_of: int | None = None) -> "RecordedConnection":
        """Begin to record a connection. Pass copies of its bytes to the returned object."""
        return RecordedConnection(self, Recorder(self.journal, client, replay_of))

    def schedule(self, connection: "RecordedConnection") -> None:
        """Schedule the parsing of a connection's waiting bytes."""
        self._busy.append(connection)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(_PERIOD, self._work)

    def _work(self) -> None:
        for _ in range(_STEPS):
            if self._busy and not self._busy[0].step():
                self._busy.popleft()
        self._is_scheduled = bool(self._busy)
        if self._busy:
            self._busy.rotate(-1)  # continue with the next connection, so that a busy one does not delay it
            asyncio.get_running_loop().call_soon(self._work)


class RecordedConnection:
    """The recording of one connection. No method raises."""

    def __init__(self, recording: Recording, recorder: Recorder) -> None:
        self._recording, self._recorder = recording, recorder
        self._is_busy = self._is_closed = False

    def on_request(self, data: bytes) -> None:
        """Record bytes that go to the local server. b"" marks their end."""
        self._recorder.on_request(data, time.time())
        self._schedule()

    def on_response(self, data: bytes) -> None:
        """Record bytes that come from the local server. b"" marks their end."""
        self._recorder.on_response(data, time.time())
        self._schedule()

    def on_close(self) -> None:
        """Record the end of the connection."""
        self._is_closed = True
        self._schedule()

    @property
    def first(self) -> Exchange | None:
        """Return the first exchange of the connection, or None."""
        return self._recorder.first

    async def finish(self) -> None:
        """Wait until all bytes that have arrived are recorded."""
        while self._is_busy:
            await asyncio.sleep(0)

    def step(self) -> bool:
        """Parse a small part of the waiting bytes. Return whether there may be more work."""
        if self._recorder.step():
            return True
        self._is_busy = False
        if self._is_closed:
            self._recorder.close(time.time())
        return False

    def _schedule(self) -> None:
        if not self._is_busy and (self._recorder.has_work or self._is_closed):
            self._is_busy = True
            self._recording.schedule(self)
