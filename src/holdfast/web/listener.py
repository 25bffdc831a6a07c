"""A second, small HTTP server inside a worker process, for the listener that only ramdisks use.

The main server listens on one address, and a process of its own could not share an embedded database. What
comes in here is little and simple: one request for each connection, a fixed number of threads.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Seconds a client may take to send the next bytes of its request.
PATIENCE = 20


class Listener:
    """Serves `app` on an address until it is closed. Several processes may share the address."""

    def __init__(self, app: WSGIApplication, host: str, port: int, threads: int) -> None:
        self._server = _server_class(host)((host, port), _Handler, threads)
        self._server.set_app(app)
        self.port: int = self._server.server_port

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="ramdisks", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(WSGIServer):
    allow_reuse_address = True
    allow_reuse_port = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler], threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ramdisk")
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Without the look into DNS that the standard library takes here."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._pool.submit(self._answer, request, client_address)

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except (OSError, ValueError):  # the client went away, or sent no HTTP
            pass
        finally:
            self.shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _server_class(host: str) -> type[_Server]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return type("Server", (_Server,), {"address_family": family})


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, *_: object) -> None:
        """The application logs what is worth it."""

    def get_environ(self) -> dict[str, Any]:
        environment: dict[str, Any] = super().get_environ()
        # Without a length there is no telling where a body ends.
        if environment.pop("HTTP_TRANSFER_ENCODING", None):
            environment["CONTENT_LENGTH"] = "0"
        return environment
