"""What is measured: the table of workloads, and how a line of it becomes requests.

Paths and bodies are templates. Each request of a batch binds them anew:

| name          | stands for                                                              |
|---------------|-------------------------------------------------------------------------|
| `$node`       | UUID of a node of the fleet, a different one for each request of a batch |
| `$mac`, `$token`, `$callback` | that node's MAC address, and what its ramdisk knows and says    |
| `$far_node`   | the same from the other end of the fleet: power changes take tokens away |
| `$tier`, `$graphics` | two of its traits                                              |
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import Template

from bench import fleet
from bench.load import Request
from bench.services import RAMDISK_HEARTBEAT, RAMDISK_LOOKUP

LEVELS = (1, 16)


@dataclass(frozen=True)
class Call:
    """One HTTP request as a template."""

    method: str
    path: str
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """What a GET must show once the work behind a request is done."""

    path: str
    shows: Mapping[str, object]


@dataclass(frozen=True)
class Workload:
    """One line of the table.

    At each level of concurrency, a round of a full run sends `requests` of them, or fewer if they take long.
    `follows_next` makes one request of a whole walk along the `next` links. The work of one that
    `goes_on` does not end with its answer: it is counted until the service is quiet. Then every request must have had
    its effect, if there is a `proof`. `only` names the one service that can do it. `fresh_process`
    restarts the service first, for work of which it can do only so much. `lists` marks what memory is read after.
    """

    name: str
    title: str
    call: Call
    requests: int
    before: tuple[Call, ...] = ()
    after: Call | None = None
    follows_next: bool = False
    goes_on: bool = False
    proof: Proof | None = None
    only: str | None = None
    fresh_process: bool = False
    lists: bool = False
    levels: tuple[int, ...] = LEVELS

    @property
    def lists_nodes(self) -> bool:
        return self.call.path.startswith(("/v1/nodes?", "/v1/nodes/detail"))

    def is_for(self, service: str) -> bool:
        return self.only in (None, service)


CREATE_NODE = Call("POST", "/v1/nodes", fleet.node_body("$fresh_uuid", "spare-$serial", 0))
DELETE_NODE = Call("DELETE", "/v1/nodes/$fresh_uuid")
CREATE_PORT = Call("POST", "/v1/ports", fleet.port_body("$fresh_uuid", "$node", "$fresh_mac"))
CREATE_BOOT_PORT = Call("POST", "/v1/ports", fleet.port_body("$other_uuid", "$fresh_uuid", "$fresh_mac"))
DELETE_PORT = Call("DELETE", "/v1/ports/$fresh_uuid")
CREATE_CONNECTOR = Call(
    "POST",
    "/v1/volume/connectors",
    {
        "uuid": "$fresh_uuid",
        "node_uuid": "$node",
        "type": "iqn",
        "connector_id": "iqn.2025-03.com.example:spare-$serial",
    },
)
DELETE_CONNECTOR = Call("DELETE", "/v1/volume/connectors/$fresh_uuid")
PUT_TRAITS = Call(
    "PUT", "/v1/nodes/$node/traits", {"traits": [*fleet.COMMON_TRAITS, "$tier", "$graphics", "CUSTOM_SERIAL_$serial"]}
)
PATCH_EXTRA = Call("PATCH", "/v1/nodes/$node", [{"op": "add", "path": "/extra/bench", "value": "$serial"}])
POWER_ON = Call("PUT", "/v1/nodes/$far_node/states/power", {"target": "power on"})
POWER_OFF = Call("PUT", "/v1/nodes/$far_node/states/power", {"target": "power off"})
IS_ON = Proof("/v1/nodes/$far_node/states", {"power_state": "power on", "target_power_state": None})
LOOK_UP = Call("GET", "/v1/lookup?addresses=$mac", headers=RAMDISK_LOOKUP)
LOOK_UP_FIRST = Call("GET", "/v1/lookup?addresses=$fresh_mac", headers=RAMDISK_LOOKUP)
HEARTBEAT = Call(
    "POST",
    "/v1/heartbeat/$node",
    {"callback_url": "$callback", "agent_version": "13.0.0", "agent_token": "$token"},
    headers=RAMDISK_HEARTBEAT,
)


def read(path: str) -> Call:
    return Call("GET", path)


def by_trait(query: str) -> Call:
    return read(f"/v1/nodes?limit=100&{query}")


# fmt: off
WORKLOADS = (
    Workload("list_detail", "List nodes in detail", read("/v1/nodes/detail?limit=1000"), 32, lists=True),
    Workload("list_traits", "List traits", read("/v1/nodes?fields=uuid,traits&limit=1000"), 32, lists=True),
    Workload("list_names", "List names", read("/v1/nodes?fields=uuid,name&limit=1000"), 32),
    Workload("list", "List nodes", read("/v1/nodes?limit=1000"), 32),
    Workload("walk", "Walk the fleet, 1,000 a page", read("/v1/nodes?limit=1000"), 8, follows_next=True, levels=(1,)),
    Workload("walk_100", "Walk the fleet, 100 a page", read("/v1/nodes?limit=100"), 8, follows_next=True, levels=(1,)),
    Workload("show", "Show a node", read("/v1/nodes/$node"), 800),
    Workload("lookup", "Look up by MAC", LOOK_UP, 400),
    Workload("lookup_first", "Look up, token given", LOOK_UP_FIRST, 100,
             before=(CREATE_NODE, CREATE_BOOT_PORT), after=DELETE_NODE),
    Workload("heartbeat", "Heartbeat", HEARTBEAT, 600, goes_on=True, fresh_process=True),
    Workload("create_node", "Create a node", CREATE_NODE, 200, after=DELETE_NODE),
    Workload("patch_node", "Patch a node's extra", PATCH_EXTRA, 200),
    Workload("delete_node", "Delete a node", DELETE_NODE, 200, before=(CREATE_NODE,)),
    Workload("put_traits", "Replace a node's traits", PUT_TRAITS, 200),
    Workload("create_port", "Create a port", CREATE_PORT, 200, after=DELETE_PORT),
    Workload("create_connector", "Create a connector", CREATE_CONNECTOR, 200, after=DELETE_CONNECTOR),
    Workload("power_on", "Power a node on", POWER_ON, 100, before=(POWER_OFF,), goes_on=True, proof=IS_ON),
    Workload("trait_half", "Filter: a trait of half", by_trait("traits=CUSTOM_GOLD"), 64, only="holdfast"),
    Workload("trait_rare", "Filter: a trait of 1 in 100", by_trait("traits=CUSTOM_GPU_A100"), 64, only="holdfast"),
    Workload("trait_rack", "Filter: a trait of 40", by_trait("traits=CUSTOM_RACK_0010"), 64, only="holdfast"),
    Workload("trait_two", "Filter: two traits", by_trait("traits=CUSTOM_GOLD,HW_CPU_X86_VMX"), 64, only="holdfast"),
    Workload("trait_any", "Filter: any of two", by_trait("traits-any=CUSTOM_GPU_A100,CUSTOM_SILVER"), 64,
             only="holdfast"),
    Workload("trait_not", "Filter: has one, lacks one", by_trait("traits=CUSTOM_GOLD&not-traits=CUSTOM_GPU_A100"), 64,
             only="holdfast"),
    Workload("trait_none", "Filter: none of two", by_trait("not-traits-any=CUSTOM_SILVER,CUSTOM_GPU_A100"), 64,
             only="holdfast"),
)
# fmt: on


@dataclass(frozen=True)
class Batch:
    """The requests of one turn: what is measured, and what surrounds it."""

    measured: list[Request]
    before: list[list[Request]]
    after: list[Request]
    proofs: list[Request]

    def first(self, count: int) -> Batch:
        """As many requests only, for a service that needs long for each."""
        return Batch(
            self.measured[:count],
            [requests[:count] for requests in self.before],
            self.after[:count],
            self.proofs[:count],
        )


def render(workload: Workload, count: int, nodes: int, serials: Iterator[int]) -> Batch:
    """A batch of `count` requests to a fleet of `nodes` that no earlier batch from the same `serials` has sent."""
    bindings = [_binding(i % nodes, nodes, next(serials)) for i in range(count)]

    def each(call: Call | None) -> list[Request]:
        return [] if call is None else [_request(call, binding) for binding in bindings]

    proof = read(workload.proof.path) if workload.proof else None
    return Batch(each(workload.call), [each(call) for call in workload.before], each(workload.after), each(proof))


def _request(call: Call, binding: Mapping[str, str]) -> Request:
    """Fill in the templates; a name that `binding` lacks is an error."""
    body = None if call.body is None else Template(json.dumps(call.body)).substitute(binding)
    return Request(call.method, Template(call.path).substitute(binding), body, call.headers)


def _binding(node: int, nodes: int, serial: int) -> dict[str, str]:
    return {
        "node": fleet.node_uuid(node),
        "far_node": fleet.node_uuid(nodes - 1 - node),
        "mac": fleet.mac(0, node),
        "token": fleet.token(node),
        "callback": fleet.callback_url(node),
        "tier": fleet.traits(node)[-3],
        "graphics": fleet.traits(node)[-2],
        "serial": str(serial),
        "fresh_uuid": str(uuid.uuid5(fleet.NAMESPACE, f"fresh-{serial}")),
        "other_uuid": str(uuid.uuid5(fleet.NAMESPACE, f"other-{serial}")),
        "fresh_mac": fleet.mac(0x06, serial),
    }
