"""CPU time and memory of a process tree."""

from __future__ import annotations

import subprocess
import sys
import time

from bench import process_tree


def test_cpu_time_and_memory_include_children() -> None:
    child = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\nimport sys; sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(process_tree.members(process.pid)) == 2
        assert process_tree.cpu_seconds(process.pid) >= 0.2
        assert process_tree.resident_bytes(process.pid) > 1 << 20
        process.terminate()


def test_only_processes_of_the_tree_are_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        (member,) = process_tree.members(process.pid)
        stranger = process_tree.Process(member.pid, member.started - 1, member.parent, 0.0)
        process_tree.kill_remaining([stranger])
        time.sleep(0.1)
        assert process.poll() is None
        process_tree.kill_remaining([member])
        assert process.wait(5) == -9
