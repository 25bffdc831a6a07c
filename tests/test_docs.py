"""The documentation is true: generated pages are current, links lead somewhere, the tour works."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service import Service, serving

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_generated_pages_are_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, content in generate.pages().items():
        assert (ROOT / "docs" / "reference" / name).read_text() == content, f"run `make docs`: {name} is old"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.real
def test_the_tour_of_the_readme_works_when_pasted(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    match = re.search(r"```sh tour\n(.*?)```", readme, re.DOTALL)
    assert match is not None
    commands = Path(sys.executable).parent
    with serving(tmp_path / "state") as service:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", _at_home(match.group(1), service)],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "HOLDFAST_URL": service.url},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "All promises hold." in done.stdout
        assert "deploy failed" in done.stdout
        assert "Traceback" not in service.log


def _at_home(script: str, service: Service) -> str:
    """The same lines for this service's port, in a shell that has the virtual environment already."""
    return script.replace(". .venv/bin/activate\n", "").replace("127.0.0.1:6385", f"127.0.0.1:{service.port}")
