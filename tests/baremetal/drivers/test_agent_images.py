"""Which images are taken: where they lie, and what their first bytes say."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.baremetal.drivers.agent import images

CHECKSUM = {"image_checksum": "a" * 64}


def qcow2(version: int = 3, backing: int = 0, features: int = 0) -> bytes:
    return (
        (b"QFI\xfb" + struct.pack(">IQ", version, backing)).ljust(72, b"\0") + struct.pack(">Q", features) + bytes(64)
    )


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\x55\xaa" * 500, "raw"),
        (b"x", "raw"),
        (qcow2(), "qcow2"),
        (qcow2(version=2), "qcow2"),
    ],
)
def test_formats_are_told_by_content(head: bytes, found: str) -> None:
    assert images.detect(head) == found


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (qcow2(backing=512), "backing file"),
        (qcow2(features=1 << 2), "in another file"),
        (qcow2(version=9), "version 9"),
        (qcow2()[:50], "then ends"),
        (b"KDMV" + bytes(200), "vmdk"),
        (b"vhdxfile" + bytes(200), "vhdx"),
        (b"QED\0" + bytes(200), "qed"),
        (b"conectix" + bytes(200), "vpc"),
    ],
)
def test_what_points_elsewhere_or_is_something_else_is_refused(head: bytes, words: str) -> None:
    with pytest.raises(errors.DriverDataInvalid, match=words):
        images.detect(head)


def test_files_are_taken_from_configured_directories_only(tmp_path: Path) -> None:
    root = tmp_path / "images"
    (root / "inside").mkdir(parents=True)
    (root / "inside" / "disk image.raw").write_bytes(b"x")
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "within").symlink_to(root / "inside" / "disk image.raw")
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    roots = [str(root)]
    for path in (f"{root}/inside/disk%20image.raw", f"{root}/within"):
        assert images.local_file(f"file://{path}", roots) == root / "inside" / "disk image.raw"
    refused = [
        f"file://{tmp_path}/secret",
        f"file://{root}/link",
        f"file://{root}/../secret",
        f"file://{root}/%2e%2e/secret",
        f"file://{root}/pipe",
        f"file://{root}/zero",
        f"file://{root}/inside",
        f"file://{root}/missing",
        f"file://elsewhere{root}/within",
        f"file://{root}-other/x",
        f"file://{root}/within%00",
    ]
    for source in refused:
        with pytest.raises(errors.DriverDataInvalid, match="image_roots"):
            images.local_file(source, roots)
    with pytest.raises(errors.DriverDataInvalid):
        images.local_file(f"file://{root}/within", [])


@pytest.fixture
def server() -> Iterator[str]:
    """Serves a backing-file qcow2, a raw image, and refuses the rest."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            content = {"/raw": b"\0" * 9999, "/hostile": qcow2(backing=1)}.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_an_image_on_a_server_is_looked_at_before_the_deploy(server: str) -> None:
    def check(path: str, **more: str) -> str:
        return images.check_content(images.of({"image_source": server + path, **CHECKSUM, **more}, []), 5)

    assert check("/raw") == "raw"
    with pytest.raises(errors.DriverDataInvalid, match="not qcow2 as image_disk_format says"):
        check("/raw", image_disk_format="qcow2")
    with pytest.raises(errors.DriverDataInvalid, match="backing file"):
        check("/hostile")
    with pytest.raises(errors.DriverFailed, match="status 404"):
        check("/missing")
    with pytest.raises(errors.DriverFailed, match="cannot be reached"):
        images.check_content(images.of({"image_source": "http://127.0.0.1:1/x", **CHECKSUM}, []), 5)


def test_checksums_are_told_by_their_length_or_named() -> None:
    by_length = images.of({"image_source": "http://x/y", "image_checksum": "AB" * 64}, [])
    assert (by_length.algorithm, by_length.digest) == ("sha512", "ab" * 64)
    named = {"image_source": "http://x/y", "image_os_hash_algo": "sha256", "image_os_hash_value": "0" * 64}
    assert images.of(named, []).algorithm == "sha256"
    for wrong in ({"image_os_hash_algo": "md5"}, {"image_os_hash_value": "0" * 128}, {"image_os_hash_value": "z" * 64}):
        with pytest.raises(errors.DriverDataInvalid):
            images.of({**named, **wrong}, [])
