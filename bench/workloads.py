"""What is measured: the table of workloads, and how a line of it becomes requests.

Paths and bodies are templates. Each request of a batch binds them anew:

| name          | stands for                                                              |
|---------------|-------------------------------------------------------------------------|
| `$node`       | UUID of a node of the fleet, a different one for each request of a batch |
| `$fresh_uuid` | a UUID that nothing carries yet                                          |
| `$fresh_mac`  | a MAC address that nothing carries yet                                   |
| `$serial`     | a number that no request has used yet                                    |

A batch is rendered once and sent to every service, so all of them get the same bytes. A workload
leaves the fleet as large as it was: what `before` makes or the call makes, the call or `after`
removes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template

from bench import fleet
from bench.load import Request


@dataclass(frozen=True)
class Call:
    """One HTTP request as a template."""

    method: str
    path: str
    body: object = None


@dataclass(frozen=True)
class Proof:
    """What a GET must show once the work behind a request is done."""

    path: str
    shows: Mapping[str, object]


@dataclass(frozen=True)
class Workload:
    """One line of the table.

    `requests` is how many are sent at each level of concurrency in each round of a full run.
    `follows_next` makes one request of a whole walk along the `next` links. A workload with a
    `proof` goes on after its answer: its CPU time is counted until the service is quiet, and then
    every request must have had its effect. `since` is the minor version that brought the call.
    """

    name: str
    title: str
    call: Call
    requests: int
    before: Call | None = None
    after: Call | None = None
    follows_next: bool = False
    proof: Proof | None = None
    since: int = 1


CREATE_NODE = Call("POST", "/v1/nodes", fleet.node_body("$fresh_uuid", "spare-$serial", 0))
DELETE_NODE = Call("DELETE", "/v1/nodes/$fresh_uuid")
CREATE_PORT = Call("POST", "/v1/ports", fleet.port_body("$fresh_uuid", "$node", "$fresh_mac"))
DELETE_PORT = Call("DELETE", "/v1/ports/$fresh_uuid")
PUT_TRAITS = Call("PUT", "/v1/nodes/$node/traits", {"traits": [*fleet.TRAITS[:-1], "CUSTOM_SERIAL_$serial"]})
PATCH_EXTRA = Call("PATCH", "/v1/nodes/$node", [{"op": "add", "path": "/extra/bench", "value": "$serial"}])
POWER_ON = Call("PUT", "/v1/nodes/$node/states/power", {"target": "power on"})
POWER_OFF = Call("PUT", "/v1/nodes/$node/states/power", {"target": "power off"})
IS_ON = Proof("/v1/nodes/$node/states", {"power_state": "power on", "target_power_state": None})


def read(path: str) -> Call:
    return Call("GET", path)


# fmt: off
WORKLOADS = (
    Workload("list_detail", "List nodes in detail", read("/v1/nodes/detail?limit=1000"), 16),
    Workload("list_traits", "List traits", read("/v1/nodes?fields=uuid,traits&limit=1000"), 16, since=37),
    Workload("list_names", "List names", read("/v1/nodes?fields=uuid,name&limit=1000"), 16, since=8),
    Workload("list", "List nodes", read("/v1/nodes?limit=1000"), 16),
    Workload("walk", "Walk the fleet, 100 a page", read("/v1/nodes?limit=100"), 16, follows_next=True),
    Workload("show", "Show a node", read("/v1/nodes/$node"), 800),
    Workload("create_node", "Create a node", CREATE_NODE, 200, after=DELETE_NODE),
    Workload("patch_node", "Patch a node's extra", PATCH_EXTRA, 200),
    Workload("delete_node", "Delete a node", DELETE_NODE, 200, before=CREATE_NODE),
    Workload("put_traits", "Replace a node's traits", PUT_TRAITS, 200, since=37),
    Workload("create_port", "Create a port", CREATE_PORT, 200, after=DELETE_PORT),
    Workload("power_on", "Power a node on", POWER_ON, 200, before=POWER_OFF, proof=IS_ON),
)
# fmt: on


@dataclass(frozen=True)
class Batch:
    """The requests of one turn: what is measured, and what surrounds it."""

    measured: list[Request]
    before: list[Request]
    after: list[Request]
    proofs: list[Request]


def render(workload: Workload, count: int, nodes: Sequence[str], serials: Iterator[int]) -> Batch:
    """A batch of `count` requests that no earlier batch from the same `serials` has sent."""
    bindings = [_binding(nodes[i % len(nodes)], next(serials)) for i in range(count)]

    def each(call: Call | None) -> list[Request]:
        return [] if call is None else [_request(call, binding) for binding in bindings]

    proof = read(workload.proof.path) if workload.proof else None
    return Batch(each(workload.call), each(workload.before), each(workload.after), each(proof))


def _request(call: Call, binding: Mapping[str, str]) -> Request:
    """Fill in the templates; a name that `binding` lacks is an error."""
    body = None if call.body is None else Template(json.dumps(call.body)).substitute(binding)
    return Request(call.method, Template(call.path).substitute(binding), body)


def _binding(node: str, serial: int) -> dict[str, str]:
    return {
        "node": node,
        "serial": str(serial),
        "fresh_uuid": str(uuid.uuid5(fleet.NAMESPACE, f"fresh-{serial}")),
        "fresh_mac": fleet.mac(0x06, serial),
    }
