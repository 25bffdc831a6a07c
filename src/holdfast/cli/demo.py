"""`holdfast demo`: enrol a fleet over the HTTP API, as an operator's script would.

Idempotent: a node whose name exists is kept, and one that an interrupted run left without its ports
gets them. Eight threads, each with one connection that stays open.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from typing import Any

import requests
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from holdfast import errors
from holdfast.cli.connection import LOCAL
from holdfast.sim import fleet
from holdfast.web.versions import Version, parse

THREADS = 8
TIMEOUT = 60
# The newest version this command was written for.
NEWEST = Version(1, 46)
VERSION_HEADER = "X-OpenStack-Ironic-API-Version"

# (collection, field): the version that brought it; an older service is not sent it
SINCE = {
    ("ports", "pxe_enabled"): Version(1, 19),
    ("ports", "local_link_connection"): Version(1, 19),
    ("nodes", "resource_class"): Version(1, 21),
    ("ports", "portgroup_uuid"): Version(1, 24),
    ("portgroups", "mode"): Version(1, 26),
    ("portgroups", "properties"): Version(1, 26),
    ("ports", "physical_network"): Version(1, 34),
}
PORTGROUPS = Version(1, 24)
TRAITS = Version(1, 37)

# state wanted: the verbs that lead there from enroll, each with the state it ends in
WAYS = {
    "enroll": (),
    "manageable": (("manage", "manageable"),),
    "available": (("manage", "manageable"), ("provide", "available")),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="enrol a fleet of simulated machines",
        description="Enrols a fleet in a running service: racks of servers with ports, port groups and traits. "
        "Names that exist are kept, so it may be repeated, with a larger number too. "
        "OS_USERNAME and OS_PASSWORD, or OS_TOKEN, are used where the service asks who is calling.",
    )
    parser.add_argument("--nodes", type=_positive, default=100, metavar="N", help="how many (default: 100)")
    parser.add_argument(
        "--url",
        default=os.environ.get("HOLDFAST_URL", LOCAL),
        help=f"where the service is (default: HOLDFAST_URL, or {LOCAL})",
    )
    parser.add_argument("--prefix", default="rack", help="how names begin: PREFIX01-u07 (default: %(default)s)")
    parser.add_argument("--driver", default="fake-hardware", help="the driver of the nodes (default: %(default)s)")
    parser.add_argument("--state", choices=WAYS, default="enroll", help="how far to bring them (default: %(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """0 if the whole fleet is there and in its state; 1 with the reasons otherwise."""
    console = Console()
    servers = fleet.plan(options.nodes, options.prefix, options.driver)
    began = time.monotonic()
    with closing(Service(options.url)) as service:
        service.negotiate()
        for rack in {server.rack: fleet.chassis(server, options.prefix) for server in servers}.values():
            if service.find("chassis", rack["uuid"]) is None:
                service.create("chassis", rack)
        with _progress(console, "enrolling", len(servers)) as advance:
            counts, failures = enrol(service, servers, options.state, advance)
    seconds = time.monotonic() - began
    told = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    console.print(f"{options.nodes} servers in {seconds:.1f} s: {told or 'nothing done'}.", highlight=False)
    for name, reason in failures[:5]:
        console.print(f"  {name}: {reason}", style="red", highlight=False, markup=False)
    if failures:
        console.print(f"{len(failures)} failed. Run the same command again to go on.", style="red")
        return 1
    console.print(f"Look at them: baremetal --os-endpoint {service.url} node list", highlight=False)
    return 0


def enrol(
    service: Service, servers: list[fleet.Server], state: str, advance: Callable[[], None]
) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Brings every server into the service. Returns what was done, and what failed with the reason."""
    counts: Counter[str] = Counter()
    failures: list[tuple[str, str]] = []
    with ThreadPoolExecutor(THREADS) as pool:
        names = {pool.submit(_enrol_one, service, server, state): server.node["name"] for server in servers}
        for done in as_completed(names):
            try:
                counts += done.result()
            except (errors.HoldfastError, requests.RequestException) as error:
                failures.append((names[done], str(error)))
            advance()
    return counts, sorted(failures)


def _enrol_one(service: Service, server: fleet.Server, state: str) -> Counter[str]:
    did: Counter[str] = Counter()
    name = server.node["name"]
    found = service.find("nodes", name)
    if found is None:
        service.create("nodes", server.node)
        did["enrolled"] += 1
    elif found["uuid"] != server.node["uuid"]:
        did["kept (not ours)"] += 1  # somebody else's node of that name: not touched at all
        return did
    else:
        did["kept"] += 1
    known = _addresses(service, name) if found else set()
    if server.portgroup and service.version >= PORTGROUPS:
        group = service.find("portgroups", server.portgroup["uuid"]) if found else None
        if group is None:
            service.create("portgroups", server.portgroup)
            did["port groups"] += 1
    for port in server.ports:
        if port["address"] not in known:
            service.create("ports", port)
            did["ports"] += 1
    if service.version >= TRAITS and not (found or {}).get("traits"):
        service.put(f"nodes/{name}/traits", {"traits": server.traits})
        did["traits"] += len(server.traits)
    _bring(service, name, (found or {}).get("provision_state", "enroll"), state)
    return did


def _addresses(service: Service, node: str) -> set[str]:
    return {port["address"] for port in service.get(f"nodes/{node}/ports")["ports"]}


def _bring(service: Service, node: str, now: str, state: str) -> None:
    """Leads a node to its state, from wherever on the way it is; one that went elsewhere is left alone."""
    way = WAYS[state]
    ends = [end for _verb, end in way]
    if now in ends:
        way = way[ends.index(now) + 1 :]
    elif now != "enroll":
        return
    for verb, end in way:
        service.put(f"nodes/{node}/states/provision", {"target": verb})
        service.wait(node, end)


class Service:
    """The service over HTTP, one connection per thread."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.version = NEWEST
        self._local = threading.local()
        self._sessions: list[requests.Session] = []

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    def negotiate(self) -> None:
        """Finds the API and the newest version both sides know, and whether anybody is there at all."""
        for endpoint in (self.url, f"{self.url}/baremetal"):
            try:
                answer = self._session().get(f"{endpoint}/v1", timeout=TIMEOUT)
            except requests.ConnectionError:
                raise errors.Unavailable(
                    f"Nothing answers at {self.url}. "
                    "Start the service with `holdfast serve`, or say where it is with --url."
                ) from None
            newest = parse(answer.headers.get("X-OpenStack-Ironic-API-Maximum-Version", ""))
            if newest is not None:
                self.url, self.version = endpoint, min(newest, NEWEST)
                return
        raise errors.Unavailable(f"{self.url} answers, but not as a bare-metal service. Check --url.")

    def get(self, path: str) -> Any:
        return self._send("GET", path).json()

    def find(self, collection: str, ident: str) -> Any:
        """The thing, or None if there is none."""
        answer = self._send("GET", f"{collection}/{ident}", expected=(404,))
        return None if answer.status_code == 404 else answer.json()

    def create(self, collection: str, body: Mapping[str, Any]) -> None:
        """Creates it, without the fields the service is too old for."""
        known = {
            field: value
            for field, value in body.items()
            if self.version >= SINCE.get((collection, field), Version(1, 1))
        }
        self._send("POST", collection, known)

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        self._send("PUT", path, body)

    def wait(self, node: str, state: str) -> None:
        """Until the node is there; any other place it comes to rest in is a failure."""
        pause = 0.02
        while True:
            found = self.get(f"nodes/{node}?fields=provision_state,target_provision_state,last_error")
            if found["provision_state"] == state:
                return
            if found["last_error"] or not found["target_provision_state"]:
                raise errors.Conflict(f"is {found['provision_state']}: {found['last_error']}")
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, expected: tuple[int, ...] = ()
    ) -> requests.Response:
        # A node that is locked or a service that is busy says so; a moment later it is not.
        for pause in (0.1, 0.3, 1.0, 3.0, None):
            answer = self._session().request(
                method,
                f"{self.url}/v1/{path}",
                json=body,
                timeout=TIMEOUT,
                headers={VERSION_HEADER: str(self.version)},
            )
            if answer.ok or answer.status_code in expected:
                return answer
            busy = answer.status_code == 503 or (answer.status_code == 409 and method == "PUT")
            if pause is None or not busy:
                break
            time.sleep(pause)
        raise errors.Conflict(f"{method} {path}: {answer.status_code} {_reason(answer)}")

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
            self._sessions.append(session)
            user, token = os.environ.get("OS_USERNAME"), os.environ.get("OS_TOKEN")
            if token:
                session.headers["X-Auth-Token"] = token
            elif user:
                session.auth = (user, os.environ.get("OS_PASSWORD", ""))
        return session


def _reason(answer: requests.Response) -> str:
    """The sentence inside an error body, whichever form it has."""
    try:
        inner = answer.json()["error_message"]
        inner = json.loads(inner) if isinstance(inner, str) else inner
        return str(inner.get("faultstring") or inner.get("description"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return answer.reason


@contextmanager
def _progress(console: Console, what: str, total: int) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda: progress.advance(bar)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
