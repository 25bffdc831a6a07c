"""What `/metrics` tells (Prometheus text format)."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, generate_latest

REQUESTS = Histogram(
    "holdfast_http_request_duration_seconds",
    "Time to answer a request.",
    ["route", "method", "code"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
BUILD = Gauge("holdfast_build_info", "The version that runs.", ["version"])
NODES = Gauge("holdfast_nodes", "Nodes by provision state.", ["provision_state"])
FLOWS = Gauge("holdfast_flows", "Flows by kind and state, finished ones apart.", ["kind", "state"])
HEARTBEATS = Counter("holdfast_heartbeat_total", "Ramdisk heartbeats by result.", ["result"])


def exposition() -> bytes:
    return generate_latest()
