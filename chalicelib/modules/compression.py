"""Compression of the responses of an HTTPS edge route."""

from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.compression import MODULE


class Compression(Enabled):
    """Compresses responses with gzip for visitors that accept it.

    The edge compresses text, scripts, JSON, XML, SVG and WebAssembly. It does not compress event streams, and responses
    that are already encoded or have `Cache-Control: no-transform`, the status 206 or a `Content-Length` below 860. It
    removes strong `ETag` headers from compressed responses.

    Do not compress pages that contain a secret and input of visitors. The size of a response can reveal the secret
    (BREACH).
    """


MODULES = tuple(Module(path=path, shape=Compression, stored=MODULE.stored) for path in MODULE.paths)
