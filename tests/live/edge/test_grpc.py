"""gRPC through a tunnel, with the operator's certificate and with an uploaded one: it goes upstream as h2c."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy


class Service(grpc.GenericRpcHandler):
    """Serves four methods, whose messages are bytes."""

    def __init__(self) -> None:
        self.caller_left = threading.Event()  # the caller of /test/slow has
        self.seconds = 0.0  # that it gave

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        both: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._both)
        unary = {"/test/unary": self._unary, "/test/slow": self._slow, "/test/fails": self._fails}
        method = unary.get(details.method)
        return grpc.unary_unary_rpc_method_handler(method) if method else both

    def _unary(self, message: bytes, _: grpc.ServicerContext) -> bytes:
        return message.upper()

    def _both(self, messages: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        return (message.upper() for message in messages)

    def _slow(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.seconds = context.time_remaining()
        context.add_callback(self.caller_left.set)
        self.caller_left.wait(20)
        return b""

    def _fails(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("which", "that"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "there is no such thing")


@pytest.fixture(scope="module")
def service() -> Service:
    return Service()


@pytest.fixture(scope="module", params=["operators", "uploaded"])
def channel(edge: Edge, service: Service, request: pytest.FixtureRequest) -> Iterator[grpc.Channel]:
    """Yield a channel to the service's address."""
    name: str = request.param
    edge.upload("cert_uploaded", "acct_A", "uploaded.tunnels.localhost")
    server = grpc.server(ThreadPoolExecutor(4), handlers=[service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    client = edge.ssh(edge.key("acct_A"), "-R", f"{name}:80:127.0.0.1:{port}")
    edge.clients.remove(client)  # it stays from test to test
    with open_channel(edge, name) as channel:
        until(lambda: answers(channel))
        yield channel
    client.kill()
    server.stop(None)


@contextmanager
def open_channel(edge: Edge, name: str) -> Iterator[grpc.Channel]:
    authority_pem = (edge.settings.directory / "authority.crt").read_bytes()
    if pair := edge.store.pairs.get(f"cert_{name}"):
        authority_pem = pair.chain.encode()
    options = (
        ("grpc.ssl_target_name_override", f"{name}.{edge.settings.tunnel_domain}"),
        ("grpc.enable_http_proxy", 0),
    )
    address = f"127.0.0.1:{edge.settings.edge_port}"
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(authority_pem), options) as channel:
        yield channel


def unary(channel: grpc.Channel, method: str) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
    return channel.unary_unary(f"/test/{method}")


def answers(channel: grpc.Channel) -> bool:
    try:
        return unary(channel, "unary")(b"hello", timeout=5) == b"HELLO"
    except grpc.RpcError:
        return False


def test_one_message_is_answered_by_one(channel: grpc.Channel) -> None:
    large = b"x" * 3_000_000

    assert unary(channel, "unary")(large, timeout=20) == large.upper()


def test_messages_go_both_ways_in_turn(channel: grpc.Channel) -> None:
    is_answered = threading.Semaphore(1)

    def messages() -> Iterator[bytes]:
        for number in range(20):
            assert is_answered.acquire(timeout=10)
            yield b"message %d" % number

    call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/test/both")
    read = []
    for message in call(messages(), timeout=20):
        read.append(message)
        is_answered.release()

    assert read == [b"MESSAGE %d" % number for number in range(20)]


def test_a_deadline_ends_the_call_on_both_sides(channel: grpc.Channel, service: Service) -> None:
    service.caller_left.clear()

    with pytest.raises(grpc.RpcError) as error:
        unary(channel, "slow")(b"", timeout=1)

    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert service.caller_left.wait(5)
    assert 0 < service.seconds < 1.1


def test_an_error_comes_with_its_words_and_metadata(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as error:
        unary(channel, "fails")(b"", timeout=20)

    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert error.value.details() == "there is no such thing"
    metadata: Any = error.value.trailing_metadata()
    assert ("which", "that") in metadata


def test_an_upstream_that_does_not_speak_grpc_is_unavailable(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_A"), "-R", f"other:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("other") == "200")

    with open_channel(edge, "other") as channel, pytest.raises(grpc.RpcError) as error:
        unary(channel, "unary")(b"", timeout=20)

    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
