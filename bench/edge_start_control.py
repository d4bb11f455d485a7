"""Control of an edge host, in its own process, for `bench/edge_start.py`. It counts its calls to the store.

The counts are written to a file several times a second, so that the figure reads them while control runs.
"""

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chalicelib.storage.client import aws
from edge import __main__ as edge
from edge.process import files

_PERIOD = 0.05  # seconds between two writes


def main(file: Path) -> None:
    """Run control and count its calls, until a signal."""
    calls: Counter[str] = Counter()

    def on_call(model: Any, **_: object) -> None:
        calls[model.name] += 1

    for service in ("dynamodb", "kms"):
        aws.client(service).meta.events.register(f"provide-client-params.{service}", on_call)
    threading.Thread(target=_write, args=(file, calls), daemon=True).start()
    sys.argv[1:] = ["control"]
    edge.main()


def _write(file: Path, calls: Counter[str]) -> None:
    while True:
        files.replace(file, json.dumps(dict(calls)).encode())
        time.sleep(_PERIOD)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
