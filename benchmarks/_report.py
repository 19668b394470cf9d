"""What all benchmarks share: the result file, the printed table, the machine and commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"


def metric(value: float, goal: float, better: str, **more: Any) -> dict[str, Any]:
    """One figure with its goal; better: `higher` or `lower`."""
    return {"value": value, "goal": goal, "better": better, **more}


def write(name: str, metrics: dict[str, dict[str, Any]], details: dict[str, Any]) -> Path:
    """Write out/NAME.json and print the metrics as a table."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    document = {"machine": machine(), "commit": commit(), "metrics": metrics, "details": details}
    path.write_text(json.dumps(document, indent=1) + "\n")
    width = max(len(key) for key in metrics)
    print(f"\n{'metric'.ljust(width)}  {'value':>8}  {'goal':>8}  met")
    for key, m in metrics.items():
        met = m["value"] >= m["goal"] if m["better"] == "higher" else m["value"] <= m["goal"]
        sign = "≥" if m["better"] == "higher" else "≤"
        print(
            f"{key.ljust(width)}  {m['value']:8.3g}  {sign} {m['goal']:6.3g}  {'yes' if met else 'no'}"
        )
    print(f"\n{path}")
    return path


def machine() -> str:
    """Processor, cores, system: enough to read a figure by."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    )


def commit() -> str:
    """The commit measured, with `+` if the tree differs from it."""
    try:
        head = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
        dirty = subprocess.check_output(["git", "status", "--porcelain"], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if dirty else "")
