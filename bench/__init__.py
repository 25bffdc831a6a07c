"""Holdfast and a real Ironic, side by side: the same data, the same requests, one machine.

    python -m bench --quick

| module            | what it holds                                                       |
|-------------------|---------------------------------------------------------------------|
| `workloads.py`    | the table of workloads: one line is one more measurement             |
| `fleet.py`        | the nodes, ports, traits and volumes that both services are given    |
| `kept_fleet.py`   | an enrolled Ironic database, kept for the next quick run             |
| `services.py`     | how each service is installed, started, asked and stopped            |
| `postgresql.py`   | a private PostgreSQL server, for `--database postgresql`             |
| `process_tree.py` | CPU time and memory of a process and all its descendants             |
| `load.py`         | the load generator, a process of its own                             |
| `measure.py`      | one workload on one service, and the best of several                 |
| `comparison.py`   | a whole run, from start to result                                    |
| `report.py`       | the table, `results/latest.json` and `RESULTS.md`                    |
| `machine.py`      | what the result says about the machine                               |
| `chart.py`        | `results/latest.svg`                                                 |
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / ".bench"


class BenchError(Exception):
    """The benchmark cannot go on; the message says why."""
