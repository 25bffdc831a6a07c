"""Holdfast and a real Ironic, side by side: the same data, the same requests, one machine.

    python -m bench --quick

| module            | what it holds                                                       |
|-------------------|---------------------------------------------------------------------|
| `workloads.py`    | the table of workloads: one line is one more measurement             |
| `targets.py`      | the table of targets, and whether a run reaches them                 |
| `fleet.py`        | the nodes, ports, traits and volumes that both services are given    |
| `multiply.py`     | a fleet of any size from one enrolled rack, copied in the database   |
| `services.py`     | how each service is installed, started, asked and stopped            |
| `postgresql.py`   | a private PostgreSQL server                                          |
| `process_tree.py` | CPU time and memory of a process and all its descendants             |
| `load.py`         | the load generator, a process of its own                             |
| `measure.py`      | one workload on one service, and the best of several                 |
| `floor.py`        | the least that a page can cost                                       |
| `stage.py`        | one database and one size of fleet, from start to result             |
| `deploys.py`      | whole flows: deploy and tear down                                    |
| `storm.py`        | the boot storm; `ramdisks.py` are its ramdisks                       |
| `workers.py`      | one worker process and two                                           |
| `profile.py`      | where the time of a workload goes                                    |
| `comparison.py`   | a whole run                                                          |
| `report.py`       | its tables, `results/latest.json` and `RESULTS.md`                   |
| `tables.py`, `chart.py` | tables as text and Markdown; `results/latest.svg`              |
| `machine.py`      | what the result says about the machine                               |
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / ".bench"


class BenchError(Exception):
    """The benchmark cannot go on; the message says why."""
