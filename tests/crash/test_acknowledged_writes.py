"""What was answered is there: writers at full speed, `kill -9`, and a look at what they were told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import requests

from tests.service import Service, serving

pytestmark = [pytest.mark.crash, pytest.mark.real]

WRITERS = 4
# Writes that each of them is sure of before the kill.
ENOUGH = 25


def test_every_write_that_was_answered_survives_kill_9(tmp_path: Path, database_url: str) -> None:
    database = None if database_url.startswith("sqlite") else database_url
    with serving(tmp_path, database=database) as service:
        nodes = service.enrol(WRITERS)
        answered = dict.fromkeys(nodes, 0)
        enough = threading.Barrier(WRITERS + 1, timeout=120)
        writers = [threading.Thread(target=write, args=(service, node, answered, enough)) for node in nodes]
        for writer in writers:
            writer.start()
        enough.wait()
        service.kill()
        for writer in writers:
            writer.join(60)
    with serving(tmp_path, database=database) as service:
        for node, last in answered.items():
            # What was under way when the service died may be there or not.
            assert service.send("GET", f"/v1/nodes/{node}")["extra"]["serial"] in (last, last + 1)
            assert service.send("GET", f"/v1/nodes/{node}/traits")["traits"] in (
                [f"CUSTOM_SERIAL_{last}"],
                [f"CUSTOM_SERIAL_{last + 1}"],
            )


def write(service: Service, node: str, answered: dict[str, int], enough: threading.Barrier) -> None:
    """Numbers the node and its traits until nobody answers any more; notes the last number that was answered."""
    headers = {"X-OpenStack-Ironic-API-Version": "1.46"}
    with requests.Session() as session:
        for serial in range(1, 1_000_000):
            try:
                for method, path, body in (
                    ("PUT", "/traits", {"traits": [f"CUSTOM_SERIAL_{serial}"]}),
                    ("PATCH", "", [{"op": "add", "path": "/extra/serial", "value": serial}]),
                ):
                    url = f"{service.baremetal}/v1/nodes/{node}{path}"
                    session.request(method, url, json=body, headers=headers, timeout=30).raise_for_status()
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                return
            answered[node] = serial
            if serial == ENOUGH:
                enough.wait()
