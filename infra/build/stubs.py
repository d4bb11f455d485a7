"""`make stubs`: write type stubs of Envoy's messages to build/stubs, for mypy.

The package `xds-protos` has no stubs. They are generated from the descriptors of its installed version, for the modules
that the edge imports.
"""

import importlib
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse

from edge.envoy import filters
from infra import ROOT

# modules of the edge that import Envoy's messages (protobuf)
_IMPORTING = (
    *("edge.envoy.v3", "edge.envoy.ads.discovery"),
    *(f"{filters.__name__}.{file.name}" for file in iter_modules(filters.__path__)),
)
_FOLDER = ROOT / "build" / "stubs"
_GENERATOR = Path(sys.executable).parent / "protoc-gen-mypy"
# protoc-gen-mypy generates no stub for this module. The stub _ANY permits every name.
_OTHERS = "envoy/service/discovery/v3/ads_pb2_grpc.pyi"
_ANY = "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"


def write_stubs() -> None:
    """Write the stubs of all modules with Envoy's messages that the edge imports."""
    for name in _IMPORTING:
        importlib.import_module(name)
    files = [module.DESCRIPTOR for name, module in sorted(sys.modules.items()) if name.endswith("_pb2")]
    request = CodeGeneratorRequest(parameter="quiet")
    for file in files:
        file.CopyToProto(request.proto_file.add())
        if file.name.startswith(("envoy/", "xds/")):
            request.file_to_generate.append(file.name)
    done = subprocess.run([_GENERATOR], input=request.SerializeToString(), stdout=subprocess.PIPE, check=True)
    stubs = {file.name: file.content for file in CodeGeneratorResponse.FromString(done.stdout).file}
    for name, content in {**stubs, _OTHERS: _ANY}.items():
        path = _FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


if __name__ == "__main__":
    write_stubs()
