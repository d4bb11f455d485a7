"""Questions to servers that answer with other bytes than they should, over sockets."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import dns.exception
import dns.message
import dns.rrset
import pytest
from dns.message import Message

from edge.proofs import transport
from edge.proofs.transport import AnswerTooLarge

QUESTION = dns.message.make_query("shop.example", "TXT")


def answer_question(question: Message, *, value: str = "right") -> Message:
    response = dns.message.make_response(question)
    response.answer.append(dns.rrset.from_text("shop.example.", 60, "IN", "TXT", value))
    return response


def right(question: Message) -> bytes:
    return answer_question(question).to_wire()


def of_another_id(question: Message) -> bytes:
    wire = answer_question(question, value="forged").to_wire()
    return bytes([wire[0] ^ 1]) + wire[1:]


def to_another_question(question: Message) -> bytes:
    other = dns.message.make_query("other.example", "TXT", id=question.id)
    return answer_question(other, value="forged").to_wire()


def long_and_of_another_id(question: Message) -> bytes:
    return of_another_id(question) + b"x" * 5000


def broken(question: Message) -> bytes:
    return right(question)[:-3]


def no_answer(question: Message) -> bytes:
    return question.to_wire()


def looping(question: Message) -> bytes:
    """Name a record by a pointer to itself."""
    header = right(question)[:12]
    return header + right(question)[12:30] + b"\xc0\x1e" + right(question)[32:]


@contextmanager
def over_udp(*answers: Callable[[Message], bytes], from_elsewhere: bool = False) -> Iterator[int]:
    """Serve one question; yield the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as other:
        server.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))

        def serve() -> None:
            wire, client = server.recvfrom(4096)
            for answer in answers:
                (other if from_elsewhere else server).sendto(answer(dns.message.from_wire(wire)), client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


def texts(port: int, *, within: float = 0.3) -> list[str]:
    answer = asyncio.run(transport.exchange(QUESTION, "127.0.0.1", port, within))
    return [record.to_text() for rrset in answer.answer for record in rrset]


@pytest.mark.parametrize(
    "forged", [of_another_id, long_and_of_another_id, to_another_question, broken, no_answer, looping, lambda _: b"x"]
)
def test_what_is_no_answer_to_the_question_is_passed_over(forged: Callable[[Message], bytes]) -> None:
    with over_udp(forged, forged, right) as port:
        assert texts(port, within=5) == ['"right"']
    with over_udp(forged) as port, pytest.raises(dns.exception.Timeout):
        texts(port)


def test_an_answer_from_another_port_is_none() -> None:
    with over_udp(right, from_elsewhere=True) as port, pytest.raises(dns.exception.Timeout):
        texts(port)


def test_a_port_at_which_nothing_listens_is_said_at_once() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        texts(port, within=10)


def cut(question: Message) -> bytes:
    wire = bytearray(dns.message.make_response(question).to_wire())
    wire[2] |= 2
    return bytes(wire)


@contextmanager
def over_tcp(parts: Callable[[Message], Sequence[bytes]], *, pause: float = 0) -> Iterator[int]:
    """Cut the answer over UDP, and write parts over TCP; yield the port."""
    with socket.socket() as listener, socket.socket(type=socket.SOCK_DGRAM) as server:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server.bind(("127.0.0.1", port))
        listener.listen()

        def serve() -> None:
            wire, client = server.recvfrom(4096)
            server.sendto(cut(dns.message.from_wire(wire)), client)
            connection, _ = listener.accept()
            with connection:
                question = dns.message.from_wire(connection.recv(4096)[2:])
                for part in parts(question):
                    try:
                        connection.sendall(part)
                    except OSError:
                        return
                    time.sleep(pause)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield port
        thread.join(5)


def frame(wire: bytes) -> bytes:
    return len(wire).to_bytes(2, "big") + wire


def test_an_answer_comes_over_tcp_in_any_pieces() -> None:
    with over_tcp(lambda question: [bytes([byte]) for byte in frame(right(question))]) as port:
        assert texts(port, within=5) == ['"right"']


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        (lambda _: [], EOFError),
        (lambda _: [b"\x00"], EOFError),
        (lambda question: [frame(right(question))[:-1]], EOFError),
        (lambda question: [frame(of_another_id(question))], dns.exception.FormError),
        (lambda question: [frame(b"")], dns.exception.FormError),
        (lambda _: [b"\x10\x01"], AnswerTooLarge),
    ],
)
def test_what_is_no_answer_over_tcp_is_an_error(
    parts: Callable[[Message], Sequence[bytes]], error: type[Exception]
) -> None:
    with over_tcp(parts) as port, pytest.raises(error):
        texts(port, within=5)


def test_a_server_that_drips_over_tcp_ends_in_time() -> None:
    start = time.monotonic()
    with (
        over_tcp(lambda question: [bytes([byte]) for byte in frame(right(question))][:20], pause=0.05) as port,
        pytest.raises(dns.exception.Timeout),
    ):
        texts(port)
    assert time.monotonic() - start < 2
