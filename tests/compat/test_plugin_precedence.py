"""Our `baremetal node list` takes the place of upstream's, whichever package was installed first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
UPSTREAM = ["python-openstackclient", "python-ironicclient"]
OURS = ["--no-deps", str(ROOT)]


@pytest.mark.real
@pytest.mark.parametrize("order", [(UPSTREAM, OURS), (OURS, UPSTREAM)], ids=["upstream first", "ours first"])
def test_the_trait_filters_are_there_in_a_clean_environment(tmp_path: Path, order: tuple[list[str], ...]) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    for packages in (["hatchling", "rich"], *order):
        subprocess.run(
            [tmp_path / "bin/pip", "install", "-q", "--disable-pip-version-check", *packages],
            check=True,
            capture_output=True,
        )
    shown = subprocess.run(
        [tmp_path / "bin/openstack", "baremetal", "node", "list", "--help"], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    for option in ("--trait ", "--trait-any ", "--not-trait ", "--not-trait-any ", "--explain", "--long"):
        assert option in shown.stdout
    assert "duplicate" not in shown.stderr
