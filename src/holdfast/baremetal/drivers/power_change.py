"""A power change as every BMC driver makes it: look, act, look until it is so.

Only reading shows that a machine changed: commands are accepted long before they take effect, and an
answer lost on the way says nothing about the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from holdfast import errors
from holdfast.baremetal import states


def ensure_power(
    label: str,
    wanted: str,
    *,
    read: Callable[[], str | None],
    command: Callable[[], None],
    timeout: int,
) -> None:
    """Returns when the machine is in state `wanted` (`power on` or `power off`).

    `read` tells the state, None while it is between two; `command` asks for the change and is not
    called when there is nothing to change. Both raise `DriverFailed` when the hardware fails.
    """
    deadline = time.monotonic() + timeout
    waits = pauses()
    state = read()
    # A machine on its way down refuses to be switched on until it has arrived there. The other way
    # round it is the command that ends a shutdown which hangs, so that one is sent at once.
    while state is None and wanted == states.POWER_ON and time.monotonic() < deadline:
        time.sleep(next(waits))
        state = read()
    if state == wanted:
        return
    try:
        command()
    except errors.DriverFailed:
        # Refused because it is done already, or done with the answer lost: the state tells.
        if read() != wanted:
            raise
        return
    while True:
        state, failure = _glance(read)
        if state == wanted:
            return
        if time.monotonic() >= deadline:
            if failure is not None:
                raise failure
            raise errors.DriverFailed(
                f"Node {label} was told to change to {wanted!r}, but was not there after {timeout} seconds. "
                "Look at its console and its BMC's event log, then try again"
                + (", or power it off hard." if wanted == states.POWER_OFF else ".")
            )
        time.sleep(next(waits))


def pauses(first: float = 0.25, longest: float = 3.0) -> Iterator[float]:
    """Seconds between looks: short at first, for the quick machines, then longer."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 1.5, longest)


def _glance(read: Callable[[], str | None]) -> tuple[str | None, errors.DriverFailed | None]:
    """A reading that may fail: some BMCs are mute while their machine changes power."""
    try:
        return read(), None
    except errors.DriverFailed as failure:
        return None, failure
