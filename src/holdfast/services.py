"""What handlers and flow steps work with: the parts of one process, built once by `app.build`."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Semaphore
from typing import TYPE_CHECKING

from oslo_config import cfg

if TYPE_CHECKING:
    from holdfast.baremetal.drivers.registry import Drivers
    from holdfast.db.engine import Database
    from holdfast.flows.engine import Engine
    from holdfast.web.policy import Policy
    from holdfast.web.rate_limit import RateLimit


@dataclass
class Services:
    conf: cfg.ConfigOpts
    db: Database
    drivers: Drivers
    flows: Engine
    policy: Policy
    # Of the endpoints that are open to every ramdisk.
    ramdisk_limit: RateLimit
    # Making a page of a thousand rows takes megabytes and one core: more at once would only be in each other's way.
    large_pages: Semaphore
