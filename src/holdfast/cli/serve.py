"""`holdfast serve`: one command, no configuration needed."""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from multiprocessing import util
from pathlib import Path
from typing import Any

from granian.constants import Interfaces
from granian.server import MPServer, MTServer
from oslo_config import cfg

from holdfast import __version__, app, config
from holdfast.baremetal import callback_urls, netboot, policies
from holdfast.baremetal.drivers.agent import ramdisk
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.cli import options as shared
from holdfast.db import schema
from holdfast.db.engine import Database
from holdfast.web import auth
from holdfast.web.listener import Listener
from holdfast.web.policy import Policy

# From malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8

CLOUDS = """\
# For python-openstackclient, python-ironicclient and openstacksdk:
#   export OS_CLIENT_CONFIG_FILE={path} OS_CLOUD=holdfast
clouds:
  holdfast:
    auth_type: none
    baremetal_endpoint_override: {url}/baremetal
    identity_endpoint_override: {url}/identity/v3
    has_image: false
    has_network: false
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="run the service",
        description="Runs the service. Without any option: SQLite in ./state, port 6385, loopback only.",
    )
    shared.add_configuration(parser)
    parser.add_argument("--host", metavar="H", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="P", help="port to listen on (default: 6385)")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes; needs PostgreSQL (default: 1)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    conf = shared.load(options, host=options.host, port=options.port, workers=options.workers)
    configure_logging(conf.debug)
    state_dir = Path(conf.state_dir).resolve()
    try:
        auth.check(conf)
        netboot.check_networks(conf)
        callback_urls.networks(conf)
        Policy(conf, policies.RULES)  # a policy file that cannot be read is better found now
        Drivers(conf)  # a wrong name in the configuration is told here, once
        check_workers(conf)
        check_port(conf.api.host, conf.api.port)
        check_ramdisk_listener(conf)
        state_dir.mkdir(parents=True, exist_ok=True)
        lock = hold(state_dir) if conf.database.connection is None else None
    except (cfg.Error, OSError) as error:
        print(f"holdfast serve: {error}", file=sys.stderr)
        return 2
    db = Database(config.database_url(conf), pool_size=1)
    schema.upgrade(db)
    db.close()
    announce(conf, state_dir)
    serve(conf)
    if lock is not None:
        lock.close()
    return 0


def serve(conf: cfg.ConfigOpts) -> None:
    """Answers until it is told to stop; in-flight requests and running steps are allowed to end."""
    settings = {
        "address": conf.api.host,
        "port": conf.api.port,
        "interface": Interfaces.WSGI,
        "blocking_threads": conf.api.threads,
        "websockets": False,
        "log_enabled": False,
    }
    if conf.api.workers == 1:
        wsgi, stop = _start(conf)
        try:
            _Alone("holdfast", **settings).serve(target_loader=lambda: wsgi, wrap_loader=False)
        finally:
            stop()
        return
    server = MPServer(
        "holdfast",
        workers=conf.api.workers,
        respawn_failed_workers=True,
        respawn_interval=0.5,
        workers_kill_timeout=60,
        **settings,
    )
    # What is loaded by now stays: workers share it with this process for as long as no collector walks over it.
    gc.collect()
    gc.freeze()
    server.serve(target_loader=lambda: _worker(conf), wrap_loader=False)


class _Alone(MTServer):
    """Granian in this very process: a supervisor with one worker to look after would double the memory."""

    def _check_gil(self) -> None:
        """Meant for builds where threads share no lock. One worker has nobody to share it with."""


def _worker(conf: cfg.ConfigOpts) -> Any:
    """Runs once in each worker process, forked from the one that printed the endpoints."""
    # A killed parent takes its workers along: nobody would stop them otherwise.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    wsgi, stop = _start(conf)
    # Worker processes end without atexit; this is the hook they do honour.
    util.Finalize(None, stop, exitpriority=10)
    return wsgi


def _start(conf: cfg.ConfigOpts) -> tuple[Any, Callable[[], None]]:
    """A process at work: what answers HTTP, and what ends it in good order."""
    _spare_memory()
    wsgi, services, care = app.start(conf)
    listener = None
    if conf.api.ramdisk_port:
        listener = Listener(
            app.build_ramdisk_wsgi(services), conf.api.ramdisk_host, conf.api.ramdisk_port, conf.api.threads
        )
        listener.start()

    def stop() -> None:
        if listener is not None:
            listener.close()
        app.stop(services, care)

    gc.freeze()
    # Requests leave no cycles behind: a page of a thousand rows need not be searched for them while it is made.
    gc.set_threshold(50_000, 20, 100)
    return wsgi, stop


def _spare_memory() -> None:
    """Has glibc give the memory of large answers back, and not keep some for each of many threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, 1 << 23), (M_TRIM_THRESHOLD, 1 << 23)):
            mallopt(parameter, value)


def check_workers(conf: cfg.ConfigOpts) -> None:
    if conf.api.workers > 1 and conf.database.connection is None:
        raise cfg.ConfigFileValueError(
            "More than one worker needs PostgreSQL: set [database] connection "
            "(or HOLDFAST_DATABASE__CONNECTION=postgresql+psycopg://user:password@host/name)."
        )


def check_ramdisk_listener(conf: cfg.ConfigOpts) -> None:
    if bool(conf.api.ramdisk_host) != bool(conf.api.ramdisk_port):
        raise cfg.ConfigFileValueError("[api] ramdisk_host and ramdisk_port go together.")
    if conf.api.ramdisk_port:
        check_port(conf.api.ramdisk_host, conf.api.ramdisk_port)


def check_port(host: str, port: int) -> None:
    """Workers share the port between them, so the kernel would let a second service share it, too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(
                f"cannot listen on {host} port {port} ({error.strerror}). "
                "Stop what runs there, or choose another --port."
            ) from None


def hold(state_dir: Path) -> Any:
    """The state directory belongs to one service at a time; the lock is given back by the kernel."""
    lock = open(state_dir / "lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(f"another service uses {state_dir}. Stop it, or give this one its own --state-dir.") from None
    return lock


def announce(conf: cfg.ConfigOpts, state_dir: Path) -> None:
    host = f"[{conf.api.host}]" if ":" in conf.api.host else conf.api.host
    url = (conf.api.public_endpoint or f"http://{host}:{conf.api.port}").rstrip("/")
    lines = [
        f"Holdfast {__version__}, authentication {conf.auth_strategy}, "
        f"database {'PostgreSQL' if conf.database.connection else state_dir / 'holdfast.sqlite'}",
        f"  bare metal  {url}/baremetal",
        f"  flows       {url}/flows",
        f"  health      {url}/readyz   metrics {url}/metrics   OpenAPI {url}/openapi.json",
    ]
    if conf.api.ramdisk_port:
        lines.append(f"  ramdisks    {ramdisk.api_url(conf)}")
    if conf.auth_strategy == "noauth":
        clouds = state_dir / "clouds.yaml"
        clouds.write_text(CLOUDS.format(url=url, path=clouds))
        lines.append(f"  clients     export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=holdfast")
    print("\n".join(lines), flush=True)


def configure_logging(debug: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(process)d %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    for name in ("alembic", "dbos", "sqlalchemy", "urllib3", "keystonemiddleware"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("_granian").setLevel(logging.ERROR)  # it warns of running in threads, see `_Alone`
    os.environ.setdefault("DBOS__LOG_LEVEL", "WARNING")
