"""Calls what a line of JSON names by the generated Python client, and answers in a line of JSON."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGE = "tunnel_edge_client"


def _function(operation: str) -> Any:
    """Return the module of an operation: the generator has one for each, in the folder of its tag."""
    package = import_module(f"{_PACKAGE}.api")
    (file,) = Path(str(package.__file__)).parent.glob(f"*/{operation}.py")
    return import_module(f"{_PACKAGE}.api.{file.parent.name}.{operation}")


def _call(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    arguments = dict(request["query"])
    if request["schema"]:
        model = getattr(import_module(f"{_PACKAGE}.models"), request["schema"])
        arguments["body"] = model.from_dict(request["body"])
    answer = _function(request["operation"]).sync_detailed(
        *request["path"].values(), client=client, service_version="2", **arguments
    )
    return {"status": answer.status_code, "body": answer.parsed.to_dict() if answer.parsed else None}


def main(base_url: str, token: str) -> None:
    client = import_module(_PACKAGE).AuthenticatedClient(base_url, token, raise_on_unexpected_status=True)
    for line in sys.stdin:
        print(json.dumps(_call(client, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
