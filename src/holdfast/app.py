"""Builds the whole service, top to bottom. Read this first."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import replace
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING

from oslo_config import cfg

from holdfast import __version__, config
from holdfast.baremetal import policies, upkeep
from holdfast.baremetal.api.boot import API as BOOT
from holdfast.baremetal.api.images import API as IMAGES
from holdfast.baremetal.api.ramdisk import ROUTES as FOR_RAMDISKS
from holdfast.baremetal.api.routes import API as BAREMETAL
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.flows import FLOWS
from holdfast.db.engine import Database
from holdfast.flows.api import API as FLOWS_API
from holdfast.flows.engine import Engine
from holdfast.services import Services
from holdfast.web import auth, edge, health, metrics
from holdfast.web.policy import Policy
from holdfast.web.rate_limit import RateLimit

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

LOG = logging.getLogger(__name__)

# Every API of this service; paths nobody else claims belong to the last one.
APIS = [BAREMETAL, BOOT, IMAGES, FLOWS_API, health.API]


def build_services(conf: cfg.ConfigOpts) -> Services:
    """The parts of one process, connected but not yet working."""
    url = config.database_url(conf)
    db = Database(url, pool_size=conf.database.pool_size)
    drivers = Drivers(conf)
    flows = Engine(
        db,
        journal_url(conf),
        FLOWS,
        executor=f"{socket.gethostname()[:24]}-{os.getpid()}",
        step_attempts=conf.flows.step_attempts,
        retry_delay=conf.flows.retry_delay,
        heartbeat_interval=conf.conductor.heartbeat_interval,
        heartbeat_timeout=conf.conductor.heartbeat_timeout,
        exclusive=db.is_sqlite,
        drivers=drivers.types(),
    )
    services = Services(
        conf=conf,
        db=db,
        drivers=drivers,
        flows=flows,
        policy=Policy(conf, policies.RULES),
        ramdisk_limit=RateLimit(conf.api.ramdisk_rate_limit, conf.api.ramdisk_rate_burst),
        large_pages=Semaphore(1 if db.is_sqlite else 4),  # the wait for PostgreSQL leaves room for others
    )
    flows.services = services
    return services


def build_wsgi(services: Services) -> WSGIApplication:
    """The application that answers HTTP, behind authentication."""
    metrics.BUILD.labels(__version__).set(1)
    apis = APIS
    if services.conf.api.ramdisk_port:
        others = [route for route in BAREMETAL.routes if route not in FOR_RAMDISKS]
        apis = [replace(BAREMETAL, routes=others), *APIS[1:]]
    return auth.wrap(edge.build(services, apis), services.conf, edge.public_paths(apis))


def build_ramdisk_wsgi(services: Services) -> WSGIApplication:
    """What the listener for ramdisks answers: what needs credentials is not even there."""
    versions = [route for route in BAREMETAL.routes if route.path in ("", "/v1")]
    baremetal = replace(BAREMETAL, routes=[*versions, *FOR_RAMDISKS])
    return edge.build(services, [baremetal, BOOT, IMAGES, replace(health.API, routes=[])])


def start(conf: cfg.ConfigOpts) -> tuple[WSGIApplication, Services, upkeep.Upkeep]:
    """A process at work: flows resumed, background care running, ready to answer."""
    services = build_services(conf)
    services.flows.launch()
    care = upkeep.Upkeep(services)
    care.start()
    return build_wsgi(services), services, care


def stop(services: Services, care: upkeep.Upkeep) -> None:
    """Lets running steps end; what is left over is resumed at the next start."""
    care.stop()
    services.flows.close()
    services.db.close()


def journal_url(conf: cfg.ConfigOpts) -> str:
    """Where the flow engine journals: a file of its own beside SQLite, a schema of its own in PostgreSQL."""
    configured: str | None = conf.database.connection
    return configured or f"sqlite:///{Path(conf.state_dir).resolve() / 'flows.sqlite'}"
