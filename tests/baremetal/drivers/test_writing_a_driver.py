"""The guide for driver authors is right: its code, run as it stands there, drives a machine."""

from __future__ import annotations

import json
import re
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast import config, errors
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Node, Task

GUIDE = Path(__file__).parents[3] / "docs" / "writing-a-driver.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


class Pdu(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Outlets)
        self.outlets = {"/outlets/7": False}
        self.switched: list[bool] = []


class Outlets(BaseHTTPRequestHandler):
    server: Pdu

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.outlets[self.path] = body["on"]
        self.server.switched.append(body["on"])
        self._answer()

    def _answer(self) -> None:
        known = self.path in self.server.outlets
        body = json.dumps({"on": self.server.outlets.get(self.path)}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def pdu() -> Iterator[Pdu]:
    with Pdu() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drivers]:
    """The guide's package, installed; the service configured as the guide says."""
    project = tomllib.loads(blocks("toml")[0])["project"]
    info = tmp_path / "holdfast_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    table, power, steps = blocks("python")
    for name, source in {"acme": table, "acme_power": power, "acme_steps": steps}.items():
        (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "holdfast.conf").write_text(blocks("ini")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Drivers(config.load([str(tmp_path / "holdfast.conf")], environment={}))
    for name in ("acme", "acme_power", "acme_steps"):
        sys.modules.pop(name, None)


def task(pdu: Pdu, **info: Any) -> Task:
    info = {"acme_url": f"http://127.0.0.1:{pdu.server_port}", "acme_outlet": 7, **info}
    return Task(Node(id=1, uuid="u", name="rack01-u07", driver="acme", driver_info=info))


def test_its_driver_switches_the_machine(drivers: Drivers, pdu: Pdu) -> None:
    power, work = drivers.power(task(pdu)), task(pdu)
    power.validate(work)
    assert power.get_power_state(work) == "power off"
    power.set_power_state(work, "power on")
    assert power.get_power_state(work) == "power on"
    power.set_power_state(work, "soft power off")
    power.reboot(work)
    assert pdu.switched == [True, False, False, True]


def test_its_driver_says_whose_fault_it_is(drivers: Drivers, pdu: Pdu) -> None:
    power = drivers.power(task(pdu))
    with pytest.raises(errors.DriverDataInvalid, match="acme_outlet"):
        power.validate(task(pdu, acme_outlet=None))
    with pytest.raises(errors.DriverFailed, match="rack01-u07"):
        power.get_power_state(task(pdu, acme_outlet=8))


def test_its_clean_step_is_one(drivers: Drivers) -> None:
    import acme_steps  # type: ignore[import-not-found]

    [step] = acme_steps.AcmeManagement(config.load(environment={})).steps("clean")
    assert (step.interface, step.step, step.priority, step.abortable) == ("management", "blink", 20, True)
