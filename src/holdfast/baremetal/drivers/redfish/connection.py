"""Calls to Redfish services: logging in, sharing the login, and saying in plain words what went wrong.

One login per BMC and user is kept and shared by all interfaces of the process; BMCs have room for a
handful of sessions. They also answer one question at a time, so callers of the same login take turns.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import requests
import sushy
from oslo_config import cfg
from requests.adapters import HTTPAdapter
from sushy import auth, connector
from sushy import exceptions as refusals

from holdfast import errors
from holdfast.baremetal.drivers.redfish.access import Access, read_access
from holdfast.baremetal.task import Node
from holdfast.secrets import MASK

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MAX_LOGINS = 1024
# HTTP statuses by which a BMC says that it lacks something
NOT_THERE = (404, 405, 501)
# What sushy lets through when a BMC's documents are not what the schema promises.
MISREAD = (ValueError, TypeError, LookupError, AttributeError)


class Login:
    """One login to one BMC; `root` is sushy's service root once it succeeded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.root: Any = None
        self._auth: Any = None

    @contextmanager
    def turn(self, patience: float, access: Access) -> Iterator[None]:
        if not self.lock.acquire(timeout=patience):
            raise errors.DriverFailed(
                f"The BMC at {access.address} is busy answering others. Try again; if it stays so, reset the BMC."
            )
        try:
            yield
        finally:
            self.lock.release()

    def begin(self, access: Access, timeout: int) -> None:
        # One try inside sushy: it would repeat a power command whose answer was lost. `call` knows better.
        wire = connector.Connector(
            access.address, verify=access.verify, server_side_retries=1, default_request_timeout=timeout
        )
        wire._session.mount("http://", _Elsewhere())
        wire._session.mount("https://", _Elsewhere())
        wire._session.mount(f"{access.address}/", HTTPAdapter())
        kind = _AUTH[access.auth_type] if access.username else _NoLogin
        self._auth = kind(username=access.username, password=access.password)
        self.root = sushy.Sushy(access.address, auth=self._auth, connector=wire, root_prefix=access.root_prefix)

    def drop(self, *, goodbye: float = 0) -> None:
        """Forgets the login; with `goodbye`, spends up to about that many seconds to end it on the BMC too.

        Left to itself sushy says goodbye when the garbage collector finds the object: for as long as
        a dead BMC makes it wait, in whichever thread that happens to be.
        """
        session = self._auth.get_session_resource_id() if isinstance(self._auth, auth.SessionAuth) else None
        if session is not None:
            if goodbye:
                try:
                    self.root._conn.delete(session, timeout=goodbye)
                except Exception:
                    LOG.info("A session on a BMC could not be ended; it will time out there")
            self._auth.reset_session_attrs()
        self.root = self._auth = None


class Logins:
    """The logins of this process, the least recently used dropped first."""

    def __init__(self, most: int = MAX_LOGINS) -> None:
        self._most = most
        # Reentrant: the garbage collector may run sushy's destructors, which log, while we hold it.
        self._lock = threading.RLock()
        self._known: OrderedDict[Access, Login] = OrderedDict()

    def of(self, access: Access) -> Login:
        with self._lock:
            login = self._known.setdefault(access.login(), Login())
            self._known.move_to_end(access.login())
            if len(self._known) > self._most:
                _access, oldest = self._known.popitem(last=False)
                # Whoever still works under it keeps it until then.
                if oldest.lock.acquire(blocking=False):
                    oldest.drop()
                    oldest.lock.release()
        return login

    def passwords(self) -> list[str]:
        with self._lock:
            return [access.password for access in self._known if access.password]

    def close(self, seconds: float = 5.0) -> None:
        """Ends all logins on their BMCs, who have few to give, as far as that goes in so many seconds."""
        with self._lock:
            known, self._known = self._known, OrderedDict()
        deadline = time.monotonic() + seconds
        for login in known.values():
            login.drop(goodbye=1.0 if time.monotonic() < deadline else 0)


LOGINS = Logins()
atexit.register(LOGINS.close)


class _HidePasswords(logging.Filter):
    """BMCs quote a rejected value back ("the value 'hunter2' for Password is too long"); sushy logs that."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        hidden = _hide(message, LOGINS.passwords())
        if hidden != message:
            record.msg, record.args = hidden, ()
        return True


for _name in ("auth", "connector", "exceptions", "main", "resources.base"):
    logging.getLogger(f"sushy.{_name}").addFilter(_HidePasswords())


def call(conf: cfg.ConfigOpts, node: Node, what: str, work: Callable[[Any], T], *, repeatable: bool = True) -> T:
    """Runs `work` on the node's system (a sushy System, freshly read) and returns its result.

    `what` completes "the BMC refused to …". Where the BMC does not answer, the work is tried again
    unless it is not `repeatable`. Every failure is an error of ours with a text fit to be shown.
    """
    access = read_access(conf, node.driver_info)
    options = conf.redfish
    login = LOGINS.of(access)
    for attempts_left in reversed(range(options.connection_attempts)):
        try:
            with login.turn(options.connection_timeout * options.connection_attempts, access):
                return _with_login(login, access, options.connection_timeout, work)
        except (refusals.SushyError, *MISREAD) as error:
            LOG.warning(
                "Node %s: the BMC at %s failed to %s: %s: %s",
                node.uuid,
                access.address,
                what,
                type(error).__name__,
                _hide(str(error), [access.password or ""]),
            )
            if not (attempts_left and repeatable and _may_pass(error)):
                # Not "from error": its text is the BMC's, and tracebacks end up in logs.
                raise _in_plain_words(error, access, what, options.connection_timeout) from None
        time.sleep(options.connection_retry_interval)
    raise AssertionError("unreachable: the last attempt returns or raises")


def if_there(read: Callable[[Any], T], resource: Any) -> T | None:
    """What `read` finds; None where the BMC says that it has no such thing. Other failures are raised."""
    try:
        return read(resource)
    except (refusals.MissingAttributeError, refusals.MissingActionError):
        return None
    except refusals.HTTPError as error:
        if error.status_code in NOT_THERE:
            return None
        raise


def _with_login(login: Login, access: Access, timeout: int, work: Callable[[Any], T]) -> T:
    """The work under the shared login; a login the BMC no longer honours is renewed once."""
    shared = login.root is not None
    try:
        if login.root is None:
            login.begin(access, timeout)
        return work(_open_system(login.root, access))
    except refusals.AccessError as error:
        login.drop()
        if not shared or error.status_code != 401:
            raise
    try:
        login.begin(access, timeout)
        return work(_open_system(login.root, access))
    except refusals.AccessError:
        login.drop()
        raise


class _NoLogin(auth.AuthBase):  # type: ignore[misc]
    """For services that ask for none."""

    def _do_authenticate(self) -> None: ...

    def can_refresh_session(self) -> bool:
        return False


_AUTH = {"auto": auth.SessionOrBasicAuth, "basic": auth.BasicAuth, "session": auth.SessionAuth}


class _Elsewhere(HTTPAdapter):
    """Refuses links and redirects to other hosts: requests carry the login, and a BMC may be hostile."""

    def send(self, *_args: Any, **_kwargs: Any) -> requests.Response:
        raise requests.exceptions.InvalidURL("the BMC refers to another address")


def _open_system(root: Any, access: Access) -> Any:
    if access.system_id is not None:
        return root.get_system(access.system_id)
    systems = root.get_system_collection().members_identities
    if len(systems) != 1:
        some = ", ".join(str(path)[:100] for path in systems[:5]) or "none"
        raise errors.DriverDataInvalid(
            f"driver_info/redfish_system_id is missing, and the BMC at {access.address} manages "
            f"{len(systems)} systems ({some}): set it to one of them."
        )
    return root.get_system(systems[0])


def _may_pass(error: Exception) -> bool:
    """Whether trying again could help: silence and trouble inside the BMC, but no refusal."""
    if isinstance(error, refusals.ConnectionError):
        return not isinstance(error.__context__, requests.exceptions.SSLError | requests.exceptions.InvalidURL)
    return isinstance(error, refusals.ServerSideError) and error.status_code != 501


def _in_plain_words(error: Exception, access: Access, what: str, timeout: int) -> errors.HoldfastError:
    """The error to show. It never holds text of the BMC's."""
    bmc = f"The BMC at {access.address}"
    if isinstance(error, refusals.ConnectionError):
        return errors.DriverFailed(_silence(error.__context__, bmc, timeout))
    status = error.status_code if isinstance(error, refusals.HTTPError) else None
    if status == 401:
        return errors.DriverFailed(f"{bmc} refused the login: check redfish_username and redfish_password.")
    if status == 403:
        return errors.DriverFailed(f"{bmc} does not allow its user to {what}: check the user's role on the BMC.")
    if status == 404:
        return errors.DriverFailed(
            f"{bmc} could not {what}: it knows no {access.system_id or 'such system'}. "
            "Check redfish_address and redfish_system_id."
        )
    if status in NOT_THERE or isinstance(error, refusals.MissingActionError):
        return errors.UnsupportedByDriver(f"{bmc} has no way to {what}.")
    if isinstance(error, refusals.ServerSideError):
        return errors.DriverFailed(f"{bmc} failed to {what} (HTTP {status}). Try again; if it stays so, reset the BMC.")
    if status is not None:
        return errors.DriverFailed(f"{bmc} refused to {what} (HTTP {status}). The service's log holds what it said.")
    return errors.DriverFailed(
        f"{bmc} gave an answer that cannot be understood when asked to {what}. "
        "Check redfish_address, and the BMC's firmware version."
    )


def _silence(cause: BaseException | None, bmc: str, timeout: int) -> str:
    if isinstance(cause, requests.exceptions.SSLError):
        return f"{bmc} has a certificate that cannot be verified: check redfish_verify_ca."
    if isinstance(cause, requests.exceptions.InvalidURL):
        return f"{bmc} refers its callers to another address: check scheme, host and port of redfish_address."
    if isinstance(cause, requests.exceptions.Timeout):
        return f"{bmc} did not answer within {timeout} seconds: check the BMC and the network to it."
    return f"{bmc} cannot be reached: check redfish_address and the network to the BMC."


def _hide(text: str, passwords: list[str]) -> str:
    for password in passwords:
        if password:
            text = text.replace(password, MASK)
    return text
