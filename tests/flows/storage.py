"""A Cinder for scenarios that needs no server: the simulator's file, which outlives the process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.drivers.storage.cinder import CinderStorage
from holdfast.baremetal.drivers.storage.cinder_api import Cinder
from holdfast.sim.cinder import Refusal, State


class FileCinder(Cinder):
    """The same calls, handed to the simulator without HTTP."""

    def __init__(self, state: State) -> None:
        self.state = state

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        what: str | None = None,
        missing_ok: bool = False,
    ) -> dict[str, Any]:
        path, _, query = path.partition("?")
        arguments = dict(part.split("=", 1) for part in query.split("&") if part)
        try:
            return self.state.handle(method, path, arguments, body)[1] or {}
        except Refusal as refusal:
            if missing_ok and refusal.status == 404:
                return {}
            raise errors.DriverFailed(f"Cinder did not {what}: {refusal.status} {refusal}") from None


def rehearsed(conf: cfg.ConfigOpts, drivers: Drivers) -> CinderStorage:
    storage = CinderStorage(conf)
    storage.drivers = drivers
    place = Path(conf.fake.state_file).parent if conf.fake.state_file else Path(conf.state_dir)
    storage._opened = FileCinder(State(place / "cinder.sqlite"))
    return storage
