"""Progress of a run on the terminal: a live block, or a line now and then into a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

_QUIET_S = 10.0  # between two lines when the output is not a terminal


class Progress:
    """Shows the newest row of metrics; nothing at all when `quiet`."""

    def __init__(self, name: str, total_env_steps: int, *, quiet: bool = False) -> None:
        self._name, self._total, self._quiet = name, total_env_steps, quiet
        self._live: Any = None
        self._last = 0.0
        self._evaluation: dict[str, float] = {}

    def start(self) -> None:
        """Begin; call `close` at the end."""
        if not self._quiet and sys.stdout.isatty():
            from rich.live import Live  # only where there is a terminal

            self._live = Live(auto_refresh=False, transient=False)
            self._live.start()

    def update(self, row: Mapping[str, float]) -> None:
        """Show a row of metrics; keys as in metrics.csv."""
        self._evaluation |= {k: v for k, v in row.items() if k.startswith("eval/")}
        if self._live is not None:
            self._live.update(self._block(row), refresh=True)
        elif not self._quiet and time.monotonic() - self._last > _QUIET_S:
            self._last = time.monotonic()
            print(self.line(row), flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def line(self, row: Mapping[str, float]) -> str:
        """All that matters in one line."""
        return f"{self._name} {row['env_steps'] / self._total:4.0%} | " + " | ".join(
            f"{label} {value}" for label, value in self._items(row)
        )

    def _items(self, row: Mapping[str, float]) -> list[tuple[str, str]]:
        seconds = row["train_seconds"]
        rate = row["env_steps_per_second"]
        left = max(0.0, self._total - row["env_steps"]) / rate if rate else 0.0
        items = [
            ("env steps", f"{row['env_steps']:,.0f} ({rate:,.0f}/s)"),
            ("time", f"{_clock(seconds)}, at most {_clock(left)} left"),
            ("collect", f"{row['collect_seconds']:.3f} s"),
            ("learn", f"{row['learn_seconds']:.3f} s"),
        ]
        if "episode_return" in row:
            items += [
                ("return", f"{row['episode_return']:.3f}"),
                ("success", f"{row['success_rate']:.1%}"),
            ]
        if "eval/success_rate" in self._evaluation:
            e = self._evaluation
            interval = f"{e['eval/success_low']:.1%} to {e['eval/success_high']:.1%}"
            items.append(("evaluated", f"{e['eval/success_rate']:.1%} (95 %: {interval})"))
        return items

    def _block(self, row: Mapping[str, float]) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        done = min(self._total, row["env_steps"])
        table = Table.grid(padding=(0, 2))
        table.add_row(self._name, ProgressBar(total=self._total, completed=done, width=40))
        table.add_row("update", f"{row['update']:.0f}")
        for label, value in self._items(row):
            table.add_row(label, Text(value))
        return table


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
