"""Config drives: built here, at once, from the object a client sends.

A config drive is an ISO 9660 image with the label `config-2` and a tree `openstack/<version>/` that
cloud-init and its like read, gzipped and in base64: what deploy interfaces take and put on the disk.
"""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast import errors

LABEL = "config-2"
VERSIONS = ("2012-08-10", "latest")

# key of the object: the kinds its value may have
KEYS: dict[str, tuple[type, ...]] = {
    "meta_data": (dict,),
    "network_data": (dict,),
    "user_data": (dict, list, str),
    "vendor_data": (dict,),
}


def check(document: Mapping[str, Any]) -> None:
    """Raises `InvalidValue` unless a config drive can be built from it."""
    unknown = sorted(document.keys() - KEYS.keys())
    if unknown:
        raise errors.InvalidValue(f"A configdrive has {', '.join(KEYS)}, not {', '.join(unknown)[:80]}.")
    for key, value in document.items():
        if value is not None and not isinstance(value, KEYS[key]):
            raise errors.InvalidValue(f"configdrive['{key}'] has the wrong type.")


def build(document: Mapping[str, Any], *, uuid: str, name: str | None) -> str:
    """The drive in the form in which deploy interfaces take it."""
    return base64.b64encode(gzip.compress(_image(_files(document, uuid, name)), mtime=0)).decode()


def _files(document: Mapping[str, Any], uuid: str, name: str | None) -> dict[str, bytes]:
    meta_data = {"uuid": uuid, **({"name": name} if name else {}), **(document.get("meta_data") or {})}
    files = {"meta_data.json": msgspec.json.encode(meta_data)}
    for key, file in (("network_data", "network_data.json"), ("vendor_data", "vendor_data2.json")):
        if document.get(key):
            files[file] = msgspec.json.encode(document[key])
    if user_data := document.get("user_data"):
        files["user_data"] = user_data.encode() if isinstance(user_data, str) else msgspec.json.encode(user_data)
    return files


def _image(files: Mapping[str, bytes]) -> bytes:
    """Names are kept by Rock Ridge and Joliet; ISO 9660 itself only knows short ones in upper case."""
    import pycdlib  # rarely needed, and large

    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=1, joliet=3, rock_ridge="1.09", vol_ident=LABEL)
    iso.add_directory("/OPENSTAC", rr_name="openstack", joliet_path="/openstack")
    for number, version in enumerate(VERSIONS):
        short, path = f"/OPENSTAC/VERSION{number}", f"/openstack/{version}"
        iso.add_directory(short, rr_name=version, joliet_path=path)
        for index, (name, content) in enumerate(sorted(files.items())):
            iso.add_fp(
                io.BytesIO(content), len(content), f"{short}/FILE{index}.;1", rr_name=name, joliet_path=f"{path}/{name}"
            )
    image = io.BytesIO()
    iso.write_fp(image)
    iso.close()
    return image.getvalue()
