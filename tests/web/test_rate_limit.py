"""How often one address may call."""

from __future__ import annotations

import pytest

from holdfast import errors
from holdfast.web import rate_limit
from holdfast.web.rate_limit import RateLimit


def allowed(limit: RateLimit, address: str, moment: float) -> bool:
    try:
        limit.take(address, moment)
    except errors.TooManyRequests:
        return False
    return True


def test_a_burst_and_then_a_steady_rate() -> None:
    limit = RateLimit(2, 3)
    assert [allowed(limit, "10.0.0.1", 0) for _ in range(4)] == [True, True, True, False]
    assert [allowed(limit, "10.0.0.1", 1) for _ in range(3)] == [True, True, False]
    assert [allowed(limit, "10.0.0.1", 100) for _ in range(4)] == [True, True, True, False]


def test_no_limit() -> None:
    limit = RateLimit(0, 1)
    assert all(allowed(limit, "10.0.0.1", 0) for _ in range(1000))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MOST", 100)
    limit = RateLimit(1, 1)
    for number in range(1000):
        allowed(limit, f"10.0.{number // 250}.{number % 250}", 0)
    assert len(limit._buckets) == 100
    assert not allowed(limit, "10.0.3.249", 0)
