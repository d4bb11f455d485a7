"""The process that Terraform starts. It completes Terraform's handshake, and serves gRPC at a Unix socket.

Terraform requires TLS. The server does not verify Terraform's own certificate, because gRPC accepts no key on the
curve that Terraform uses. Instead, only this user can enter the folder of the socket.
"""

import base64
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tf.gen import grpc_controller_pb2 as controller_pb
from tf.gen import grpc_controller_pb2_grpc as controller_rpc
from tf.gen import grpc_stdio_pb2_grpc as stdio_rpc
from tf.gen import tfplugin_pb2_grpc as rpc

from tunneledge_provider import kinds
from tunneledge_provider.service import Service

_GRACE = 1.0  # seconds that running calls have to end when the server stops


def serve() -> None:
    """Serve one Terraform process until Terraform requests the shutdown.

    This process ignores Ctrl-C, because Terraform waits until running changes are complete.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = threading.Event()
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    rpc.add_ProviderServicer_to_server(Service(kinds.load()), server)
    controller_rpc.add_GRPCControllerServicer_to_server(_Controller(ended), server)
    stdio_rpc.add_GRPCStdioServicer_to_server(_Stdio(), server)
    key, certificate = _new_certificate()
    with tempfile.TemporaryDirectory(prefix="tunneledge-") as folder:  # a folder that only this user may enter
        socket = f"{folder}/provider.sock"
        server.add_secure_port(f"unix://{socket}", _credentials(key, certificate))
        server.start()
        shown = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode().rstrip("=")
        print(f"1|6|unix|{socket}|grpc|{shown}", flush=True)
        try:
            ended.wait()
        finally:
            server.stop(_GRACE).wait()


class _Controller(controller_rpc.GRPCControllerServicer):  # type: ignore[misc]  # generated code without types
    """Ends this process when Terraform asks for it."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    def Shutdown(self, request: Any, context: grpc.ServicerContext) -> Any:
        """End this process after the answer to this call."""
        self._ended.set()
        return controller_pb.Empty()


class _Stdio(stdio_rpc.GRPCStdioServicer):  # type: ignore[misc]  # generated code without types
    """Answers Terraform's request for the output of this process. There is no output."""

    def StreamStdio(self, request: Any, context: grpc.ServicerContext) -> Any:
        """End the stream of output at once."""
        return iter(())


def _new_certificate() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a new key and its certificate. They exist only in this process."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _credentials(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> grpc.ServerCredentials:
    """Return the TLS credentials of the gRPC server."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = certificate.public_bytes(serialization.Encoding.PEM)
    return grpc.ssl_server_credentials([(pem, chain)])
