"""The counts of requests that processes add up, so that a limit holds for all processes together. Counts have no audit
event.
"""

from collections.abc import Mapping

from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write

SECONDS = 2  # the length of a window of time in which requests are counted
_WINDOWS = 30  # the number of time windows in one record
_KEPT = 120  # seconds after which a record of counts expires
_PREFIX = "window_"  # the start of the names of attributes with the counts of windows


def add(scope: str, window: int, count: int) -> Mapping[int, int]:
    """Add a count to a window. Return the counts of all windows in the record, from all processes.

    Windows are numbered from the Unix epoch. One write. Raises aws.Unavailable.
    """
    number, index = divmod(window, _WINDOWS)
    expires = (window * SECONDS) + _KEPT
    write = Write.update(
        scope, str(number), Condition(""), sets={"expires": expires}, adds={f"{_PREFIX}{index}": count}
    )
    record = dynamodb.do(write)
    counts = ((name.removeprefix(_PREFIX), value) for name, value in record.items() if name.startswith(_PREFIX))
    return {number * _WINDOWS + int(index): value for index, value in counts}
