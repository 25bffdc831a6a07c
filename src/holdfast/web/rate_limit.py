"""How often one address may call: a bucket of tokens for each, refilled at a steady rate."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict

from holdfast import errors

# Buckets kept: those used longest ago go first. An address that is forgotten starts with a full one.
MOST = 8192


class RateLimit:
    """`rate` calls a second and `burst` at once for each address; rate 0: no limit. For many threads."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: (tokens, when)

    def take(self, address: str, moment: float | None = None) -> None:
        """Raises `TooManyRequests` when the address has used its share up."""
        if not self._rate:
            return
        source = _source(address)
        if source is None:
            return
        moment = time.monotonic() if moment is None else moment
        with self._lock:
            tokens, when = self._buckets.pop(source, (self._burst, moment))
            tokens = min(self._burst, tokens + (moment - when) * self._rate)
            allowed = tokens >= 1
            self._buckets[source] = (tokens - 1 if allowed else tokens, moment)
            if len(self._buckets) > MOST:
                self._buckets.popitem(last=False)
        if not allowed:
            raise errors.TooManyRequests("Too many requests from this address. Try again in a moment.")


def _source(address: str) -> str | None:
    """What shares a bucket: an IPv4 address, an IPv6 network of /64. None for this machine itself, where a
    proxy hides whom it speaks for."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    if parsed.is_loopback:
        return None
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
