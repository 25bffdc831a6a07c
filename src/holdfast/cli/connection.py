"""How the client commands reach the bare-metal API: what the environment says, or the service on this machine."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

LOCAL = "http://127.0.0.1:6385"

# Any of these says that the caller has an opinion.
OPINIONS = ("OS_CLOUD", "OS_ENDPOINT", "OS_AUTH_URL", "OS_AUTH_TYPE", "OS_BAREMETAL_ENDPOINT_OVERRIDE")

M = TypeVar("M")


def local_endpoint() -> str:
    """The bare-metal API of the service on this machine, or of the one HOLDFAST_URL names."""
    return os.environ.get("HOLDFAST_URL", LOCAL).rstrip("/") + "/baremetal"


def is_configured(arguments: list[str]) -> bool:
    """Whether the command line or the environment says which service is meant."""
    named = ("--os-cloud", "--os-endpoint", "--os-auth-url", "--os-auth-type", "--os-baremetal-endpoint-override")
    return any(os.environ.get(name) for name in OPINIONS) or any(
        argument.partition("=")[0] in named for argument in arguments
    )


def narrowed(manager: M, arguments: Mapping[str, Any]) -> M:
    """The same manager of python-ironicclient, whose lists carry these query arguments, too."""
    given = {name: value for name, value in arguments.items() if value not in (None, "", [])}
    if not given:
        return manager
    query = urlencode({name: ",".join(v) if isinstance(v, list) else v for name, v in given.items()})

    def with_query(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda url, *args, **kwargs: method(f"{url}{'&' if '?' in url else '?'}{query}", *args, **kwargs)

    other: Any = copy.copy(manager)
    for name in ("_list", "_list_pagination"):
        setattr(other, name, with_query(getattr(manager, name)))
    return other  # type: ignore[no-any-return]
