"""Control of an edge host, in its own process, for `bench/edge_host.py`. It counts its calls to the store.

At SIGUSR1 it writes the counts to a file. Between two signals, counting takes no CPU but that of the calls.
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from chalicelib.storage.client import aws
from edge import __main__ as edge
from edge.process import files


def main(file: Path) -> None:
    """Run control and count its calls, until a signal ends it."""
    calls: Counter[str] = Counter()

    def on_call(model: Any, **_: object) -> None:
        calls[model.name] += 1

    signal.signal(signal.SIGUSR1, lambda *_: files.replace(file, json.dumps(dict(calls)).encode()))
    for service in ("dynamodb", "kms"):
        aws.client(service).meta.events.register(f"provide-client-params.{service}", on_call)
    sys.argv[1:] = ["control"]
    edge.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
