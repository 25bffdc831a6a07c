"""The emulated BMCs, one of each kind for all tests of these drivers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.ipmi_bmc import Simulator, simulator
from tests.redfish_bmc import Emulator, StandIn, emulator, stand_in


@pytest.fixture(scope="session")
def redfish_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with emulator(tmp_path_factory.mktemp("redfish")) as running:
        yield running


@pytest.fixture
def redfish_stand_in() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


@pytest.fixture(scope="session")
def _ipmi_simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with simulator(tmp_path_factory.mktemp("ipmi")) as running:
        yield running


@pytest.fixture
def ipmi_simulator(_ipmi_simulator: Simulator) -> Simulator:
    """The simulator with its machine off and its journal empty."""
    _ipmi_simulator.reset()
    return _ipmi_simulator


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A TCP port that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield listener.getsockname()[1]
