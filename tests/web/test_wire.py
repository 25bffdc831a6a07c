"""What a socket can do to the real server that no HTTP library would: never a 500, never a hang."""

from __future__ import annotations

import socket

import pytest

from tests.service import Service

NODE = b'{"driver":"fake-hardware"}'
USUAL = b"Host: 127.0.0.1\r\nConnection: close\r\nX-OpenStack-Ironic-API-Version: latest\r\n"
JSON = b"Content-Type: application/json\r\n"


def get(target: bytes, headers: bytes = USUAL) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + headers + b"\r\n"


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /baremetal/v1/nodes HTTP/1.1\r\n" + USUAL + JSON + headers + b"\r\n" + body


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# what is sent: the status line it leads to
ODDITIES: dict[str, tuple[bytes, int]] = {
    "a chunked body": (post(b"Transfer-Encoding: chunked\r\n", chunked(NODE, 5)), 201),
    "a chunked body over the limit": (post(b"Transfer-Encoding: chunked\r\n", chunked(b"x" * 2_000_000, 65536)), 413),
    "chunks that are none": (post(b"Transfer-Encoding: chunked\r\n", b"zz\r\n\r\n"), 400),
    "two lengths": (post(b"Content-Length: 5\r\nContent-Length: 26\r\n", NODE), 400),
    "a negative length": (post(b"Content-Length: -5\r\n", NODE), 400),
    "a length over the limit, nothing behind it": (post(b"Content-Length: 99999999\r\n", b"{}"), 413),
    "a body over the limit": (post(b"Content-Length: 2000000\r\n", b"x" * 2_000_000), 413),
    "a client that waits before its body": (post(b"Expect: 100-continue\r\nContent-Length: 26\r\n", NODE), 100),
    "HTTP/1.0": (b"GET /baremetal/v1/nodes HTTP/1.0\r\n\r\n", 200),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "no HTTP at all": (b"\x00\xff\x01\r\n\r\n", 400),
    "TLS": (bytes.fromhex("16030102000100"), 400),
    "a broken percent sign": (get(b"/baremetal/v1/nodes/%zz"), 400),
    "bytes that are no UTF-8": (get(b"/baremetal/v1/nodes/%ff%fe"), 400),
    "raw bytes that are no UTF-8": (get(b"/baremetal/v1/nodes/\xff\xfe"), 400),
    "NUL, escaped": (get(b"/baremetal/v1/nodes/a%00b"), 400),
    "NUL, raw": (get(b"/baremetal/v1/nodes/a\x00b"), 400),
    "an argument that is no UTF-8": (get(b"/baremetal/v1/nodes?nonsense=%ff"), 400),
    "an absolute target": (get(b"http://evil.example/baremetal/v1/nodes"), 200),
    "an endless target": (get(b"/baremetal/v1/nodes/" + b"x" * 100_000), 414),
    "an endless header": (get(b"/healthz", USUAL + b"X-A: " + b"x" * 1_000_000 + b"\r\n"), 431),
    "headers without end": (get(b"/healthz", USUAL + b"".join(b"X-%d: 1\r\n" % i for i in range(500))), 431),
    "a version that is no text": (get(b"/baremetal/v1/nodes", USUAL.replace(b"latest", b"\xff\xfe")), 406),
    "two versions": (get(b"/baremetal/v1/nodes", USUAL + b"X-OpenStack-Ironic-API-Version: 1.5\r\n"), 406),
    "a method nobody knows": (b"SING /baremetal/v1/nodes HTTP/1.1\r\n" + USUAL + b"\r\n", 400),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\n" + USUAL + b"\r\n", 405),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\n" + USUAL + b"\r\n", 404),
    "two requests at once": (get(b"/healthz", b"Host: 127.0.0.1\r\n") + get(b"/healthz"), 200),
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_oddities_on_the_wire_are_answered(service: Service, oddity: str) -> None:
    sent, status = ODDITIES[oddity]
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        connection.sendall(sent)
        answer = _read(connection)
    assert answer.startswith((b"HTTP/1.1 %d " % status, b"HTTP/1.0 %d " % status)), answer[:300]
    assert "Unexpected error" not in service.log


def test_links_lead_somewhere_when_the_client_named_no_host(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        connection.sendall(b"GET /baremetal HTTP/1.0\r\n\r\n")
        assert f'"href":"{service.baremetal}/v1/"'.encode() in _read(connection)


def test_a_body_that_arrives_slowly_is_read_whole(service: Service) -> None:
    body = b'{"driver":"fake-hardware","extra":{"x":"' + b"x" * 900_000 + b'"}}'
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        connection.sendall(post(b"Content-Length: %d\r\n" % len(body), b""))
        for start in range(0, len(body), 200_000):
            connection.sendall(body[start : start + 200_000])
        assert _read(connection).startswith(b"HTTP/1.1 201 ")


def test_a_client_that_goes_away_leaves_the_service_well(service: Service) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
            connection.sendall(post(b"Content-Length: 100\r\n", b"{"))
    assert service.request("GET", "/readyz").ok


def _read(connection: socket.socket) -> bytes:
    """Until the server closes; it must, within the socket's timeout."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received
