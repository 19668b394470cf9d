"""What a run leaves for people: metrics.csv and TensorBoard events."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlinf_ros.contract.errors import ConfigError

CSV = "metrics.csv"


class RunLog:
    """Writes one row of numbers per update; a resumed run goes on after the checkpoint's row.

    Columns appear with their first value and stay empty where a row lacks them: evaluation is not
    run every time.
    """

    def __init__(self, run_dir: Path, *, after_update: int = 0) -> None:
        """after_update: rows later than this one are of the time after the checkpoint: dropped."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # a third of a second, together
        from torch.utils.tensorboard import SummaryWriter

        self._run_dir, self._columns, self._summary = run_dir, list[str](), Summary
        rows = [r for r in read_metrics(run_dir) if r["update"] <= after_update]
        next_step = int(rows[-1]["env_steps"]) + 1 if rows else None
        self._writer: Any = SummaryWriter(str(run_dir / "tensorboard"), purge_step=next_step)
        self._rewrite(rows)

    def write(self, row: Mapping[str, float]) -> None:
        """Append a row; it holds "update" and "env_steps"."""
        if row.keys() <= set(self._columns):
            self._write("a", [self._line(self._values(row))])
        else:
            self._rewrite([*read_metrics(self._run_dir), row])
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name not in ("update", "env_steps")
        ]
        try:  # one event for the whole row: twenty times faster than twenty calls of add_scalar
            self._writer.file_writer.add_summary(self._summary(value=values), int(row["env_steps"]))
        except OSError as error:
            raise _unwritable(self._run_dir / "tensorboard", error) from error

    def close(self) -> None:
        """Flush."""
        self._writer.close()

    def _rewrite(self, rows: Sequence[Mapping[str, float]]) -> None:
        self._columns = list(dict.fromkeys(name for row in rows for name in row))
        self._write("w", [self._line(self._columns), *(self._line(self._values(r)) for r in rows)])

    def _values(self, row: Mapping[str, float]) -> list[str]:
        return [f"{row[c]:.10g}" if c in row else "" for c in self._columns]

    @staticmethod
    def _line(values: list[str]) -> str:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerow(values)
        return buffer.getvalue()

    def _write(self, mode: str, lines: list[str]) -> None:
        try:
            with (self._run_dir / CSV).open(mode, encoding="utf-8", newline="") as file:
                file.writelines(lines)
        except OSError as error:
            raise _unwritable(self._run_dir / CSV, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot be written: {error.strerror}",
        where=str(path),
        fix="free space or allow writing there, then resume",
    )


def read_metrics(run_dir: str | Path) -> list[dict[str, float]]:
    """The rows of a run's metrics.csv; empty cells are left out. No file: no rows."""
    path = Path(run_dir) / CSV
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
