"""Every error a caller can meet.

    HoldfastError
    ├── BadRequest 400
    │   ├── InvalidValue            a field or argument has the wrong type, form or range
    │   ├── UnknownArgument         a query argument or body key nobody knows
    │   ├── BadPatch                a JSON patch that cannot be applied
    │   ├── InvalidStateRequested   the verb is not possible in the state the node is in
    │   ├── NodeInMaintenance       the verb needs maintenance to be over
    │   ├── UnsupportedByDriver     the node's driver has no such ability
    │   ├── DriverDataInvalid       what the driver needs is missing or malformed
    │   └── NotEmpty                the thing still holds others
    ├── Unauthorized 401
    ├── Forbidden 403
    │   └── NodeProtected           the node may not lose what is on it
    ├── NotFound 404
    ├── MethodNotAllowed 405
    ├── NotAcceptable 406           version negotiation
    │   └── NewerVersionNeeded      a field, filter or verb of a later microversion
    ├── Conflict 409
    │   ├── NodeLocked              another flow holds the node
    │   ├── InvalidState            the field may not change in this state
    │   ├── Duplicate               somebody else has that name, address, id
    │   └── Associated              an instance is on it
    ├── TooLarge 413
    ├── TooManyRequests 429
    ├── DriverFailed 409            the hardware said no, or nothing at all
    └── Unavailable 503             try again

`public` is what leaves the process: a sentence that says what to do next. Causes are logged,
never shown. Each API turns the tree into its own wire format at the edge (`web/edge.py`).
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """Base of the tree. `code` is stable and machine-readable, `status` the HTTP answer."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, public: str) -> None:
        super().__init__(public)
        self.public = public


class BadRequest(HoldfastError):
    status = 400
    code = "bad-request"


class InvalidValue(BadRequest):
    code = "invalid-value"


class UnknownArgument(BadRequest):
    code = "unknown-argument"


class BadPatch(BadRequest):
    code = "bad-patch"


class InvalidStateRequested(BadRequest):
    code = "invalid-state-requested"


class NodeInMaintenance(BadRequest):
    code = "node-in-maintenance"


class UnsupportedByDriver(BadRequest):
    code = "unsupported-by-driver"


class DriverDataInvalid(BadRequest):
    code = "driver-data-invalid"


class NotEmpty(BadRequest):
    code = "not-empty"


class Unauthorized(HoldfastError):
    status = 401
    code = "unauthorized"


class Forbidden(HoldfastError):
    status = 403
    code = "forbidden"


class NodeProtected(Forbidden):
    code = "node-protected"


class NotFound(HoldfastError):
    status = 404
    code = "not-found"


class MethodNotAllowed(HoldfastError):
    status = 405
    code = "method-not-allowed"


class NotAcceptable(HoldfastError):
    status = 406
    code = "not-acceptable"


class NewerVersionNeeded(NotAcceptable):
    code = "newer-version-needed"


class Conflict(HoldfastError):
    status = 409
    code = "conflict"


class NodeLocked(Conflict):
    code = "node-locked"


class InvalidState(Conflict):
    code = "invalid-state"


class Duplicate(Conflict):
    code = "duplicate"


class Associated(Conflict):
    code = "associated"


class TooLarge(HoldfastError):
    status = 413
    code = "too-large"


class TooManyRequests(HoldfastError):
    status = 429
    code = "too-many-requests"


class DriverFailed(HoldfastError):
    """The hardware said no, or nothing at all. Flows retry it; a synchronous call shows it as a conflict."""

    status = 409
    code = "driver-failed"


class Unavailable(HoldfastError):
    status = 503
    code = "unavailable"
