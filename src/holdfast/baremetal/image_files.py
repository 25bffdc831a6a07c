"""Images that machines fetch from this service: those given as `file://`, while the node is being deployed.

Open to anybody who knows the random end of the URL, which only the node's agent is told; the same "not
found" for every other reason.
"""

from __future__ import annotations

import hmac
from pathlib import Path

import msgspec
from sqlalchemy import select

from holdfast import errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers.agent import deploy, images
from holdfast.db import tables
from holdfast.services import Services

DEPLOYING = (states.DEPLOYING, states.DEPLOYWAIT)


def find(services: Services, node_uuid: str, secret: str) -> Path:
    """The file whose content goes onto that node."""
    table = tables.nodes
    with services.db.read() as connection:
        row = connection.execute(
            select(table.c.provision_state, table.c.instance_info, table.c.driver_internal_info).where(
                table.c.uuid == node_uuid
            )
        ).first()
    if row is not None and row.provision_state in DEPLOYING:
        known = str(msgspec.json.decode(row.driver_internal_info).get(deploy.IMAGE_SECRET) or "")
        if known and hmac.compare_digest(known.encode(), secret.encode()):
            image = images.of(msgspec.json.decode(row.instance_info), services.conf.agent.image_roots)
            if image.path is not None:
                return image.path
    raise errors.NotFound("There is no such image.")
