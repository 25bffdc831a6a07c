"""Which image goes onto a machine: where it comes from, its checksum, and that it is what it claims to be.

The agent downloads and verifies it; here everything is refused that should not get that far. An image is
judged by its first bytes, never by a tool that would open what a header points to (CVE-2024-44082 and its
relatives), and a `file://` is taken from configured directories only (CVE-2025-44021, CVE-2026-44919).
"""

from __future__ import annotations

import re
import stat
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import requests

from holdfast import errors

HEAD = 4096
FORMATS = ("raw", "qcow2")
ALGORITHMS = {64: "sha256", 96: "sha384", 128: "sha512"}
# The first bytes of formats that are neither raw nor qcow2; a raw image does not begin so by accident.
OTHER_FORMATS = {
    b"KDMV": "vmdk",
    b"# Disk Desc": "vmdk",
    b"vhdxfile": "vhdx",
    b"conectix": "vpc",
    b"QED\0": "qed",
    b"<<< ": "vdi",
    b"LUKS\xba\xbe": "luks",
}
QCOW2 = b"QFI\xfb"
# Bits of qcow2's incompatible features: data in another file; an image left dirty or corrupt is refused, too.
EXTERNAL_DATA = 1 << 2


class Image(NamedTuple):
    source: str
    disk_format: str | None  # as declared
    algorithm: str
    digest: str
    path: Path | None  # of a local file


def of(instance_info: Mapping[str, Any], roots: Sequence[str]) -> Image:
    """The image that instance_info names; `DriverDataInvalid` where it does not do. Looks at no network."""
    source = instance_info.get("image_source")
    if not isinstance(source, str) or not source:
        raise errors.DriverDataInvalid("instance_info/image_source is missing: there is no image to write.")
    scheme = urlsplit(source).scheme
    if scheme not in ("http", "https", "file"):
        raise errors.DriverDataInvalid("instance_info/image_source must be an http://, https:// or file:// URL.")
    if instance_info.get("image_type") not in (None, "whole-disk", "whole-disk-image"):
        raise errors.DriverDataInvalid("Only whole-disk images can be written; set instance_info/image_type to that.")
    if instance_info.get("kernel") or instance_info.get("ramdisk"):
        raise errors.DriverDataInvalid(
            "instance_info has kernel or ramdisk, which makes a partition image; only whole-disk images can be written."
        )
    declared = instance_info.get("image_disk_format")
    if declared is not None and declared not in FORMATS:
        raise errors.DriverDataInvalid(f"instance_info/image_disk_format must be one of {', '.join(FORMATS)}.")
    algorithm, digest = _checksum(instance_info)
    path = local_file(source, roots) if scheme == "file" else None
    return Image(source, declared, algorithm, digest, path)


def _checksum(info: Mapping[str, Any]) -> tuple[str, str]:
    algorithm, digest = info.get("image_os_hash_algo"), info.get("image_os_hash_value")
    if not digest:
        digest = info.get("image_checksum")
        algorithm = ALGORITHMS.get(len(str(digest or "")))
        if digest and algorithm is None:
            raise errors.DriverDataInvalid(
                "instance_info/image_checksum must be a SHA-256, SHA-384 or SHA-512 in hexadecimal."
            )
    if not digest:
        raise errors.DriverDataInvalid(
            "The image has no checksum: set instance_info/image_checksum, "
            "or image_os_hash_algo and image_os_hash_value."
        )
    digest = str(digest).lower()
    if algorithm not in ALGORITHMS.values() or ALGORITHMS.get(len(digest)) != algorithm:
        raise errors.DriverDataInvalid("instance_info/image_os_hash_algo must be sha256, sha384 or sha512, and fit.")
    if not re.fullmatch("[0-9a-f]+", digest):
        raise errors.DriverDataInvalid("The image's checksum is not hexadecimal.")
    return str(algorithm), digest


def local_file(source: str, roots: Sequence[str]) -> Path:
    """The file a `file://` URL means: a regular one under one of the roots, wherever links lead."""
    parts = urlsplit(source)
    refused = errors.DriverDataInvalid(
        "instance_info/image_source is a file that may not be used: it must be a regular file under "
        "one of [agent] image_roots."
    )
    if parts.netloc not in ("", "localhost") or "\0" in parts.path:
        raise refused
    try:
        path = Path(unquote(parts.path)).resolve(strict=True)
        regular = stat.S_ISREG(path.stat().st_mode)
        inside = any(path.is_relative_to(Path(root).resolve(strict=True)) for root in roots)
    except (OSError, ValueError, RuntimeError):
        raise refused from None
    if not (regular and inside):
        raise refused
    return path


def check_content(image: Image, timeout: float) -> str:
    """The image's format by its first bytes: `raw` or `qcow2`. Refuses others, and headers that point elsewhere."""
    found = detect(_head(image, timeout))
    if image.disk_format is not None and image.disk_format != found:
        raise errors.DriverDataInvalid(
            f"The image is {found} by its content, not {image.disk_format} as image_disk_format says."
        )
    return found


def detect(head: bytes) -> str:
    for magic, name in OTHER_FORMATS.items():
        if head.startswith(magic):
            raise errors.DriverDataInvalid(f"The image is {name} by its content; only raw and qcow2 are written.")
    if not head.startswith(QCOW2):
        return "raw"
    if len(head) < 104:
        raise errors.DriverDataInvalid("The image begins like qcow2 and then ends.")
    version, backing = struct.unpack(">IQ", head[4:16])
    features = struct.unpack(">Q", head[72:80])[0] if version >= 3 else 0
    if version not in (2, 3):
        raise errors.DriverDataInvalid(f"The image is qcow2 of version {version}, which nobody knows.")
    if backing:
        raise errors.DriverDataInvalid("The image has a backing file. Flatten it: `qemu-img convert -O qcow2`.")
    if features & EXTERNAL_DATA:
        raise errors.DriverDataInvalid("The image keeps its data in another file. Convert it with `qemu-img convert`.")
    return "qcow2"


def _head(image: Image, timeout: float) -> bytes:
    if image.path is not None:
        with image.path.open("rb") as file:
            return file.read(HEAD)
    try:
        with requests.Session() as session:
            session.max_redirects = 5
            session.trust_env = False  # no credentials from a .netrc go to an address a user chose
            with session.get(
                image.source,
                headers={"Range": f"bytes=0-{HEAD - 1}", "Accept-Encoding": "identity"},
                stream=True,
                timeout=timeout,
            ) as answer:
                if answer.status_code not in (200, 206):
                    raise errors.DriverFailed(f"The image server answers with status {answer.status_code}.")
                head: bytes = answer.raw.read(HEAD)
    except requests.RequestException as error:
        raise errors.DriverFailed(f"The image server cannot be reached ({type(error).__name__}).") from None
    if not head:
        raise errors.DriverFailed("The image is empty.")
    return head
