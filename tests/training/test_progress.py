"""What a run shows on a terminal and in a log, and what it writes to metrics.csv."""

import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros_training.progress import Progress
from rlinf_ros_training.run_log import RunLog, read_metrics

ROW = {
    "update": 3,
    "env_steps": 50_000,
    "train_seconds": 5.0,
    "env_steps_per_second": 10_000.0,
    "collect_seconds": 0.25,
    "learn_seconds": 0.125,
    "episode_return": 12.5,
    "success_rate": 0.5,
}
EVALUATION = {"eval/success_rate": 0.75, "eval/success_low": 0.7, "eval/success_high": 0.8}
PARTS = (
    "50,000 (10,000/s)",
    "0:05, at most 0:15 left",
    "0.250 s",
    "0.125 s",
    "50.0%",
    "75.0% (95 %: 70.0% to 80.0%)",
)


def show(rows, **options):
    progress = Progress("reach", 200_000, **options)
    progress.start()
    for row in rows:
        progress.update(row)
    progress.close()


def test_a_log_gets_a_line_now_and_then(capsys):
    show([ROW | EVALUATION, ROW])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, "the second row comes too soon for another line"
    assert lines[0].startswith("reach  25% | ")
    assert all(part in lines[0] for part in PARTS)


def test_a_terminal_gets_a_block_that_keeps_the_last_evaluation(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    show([ROW | EVALUATION, ROW])
    last_block = capsys.readouterr().out.split("update")[-1]
    assert all(part in last_block for part in PARTS)


def test_quiet_shows_nothing(capsys):
    show([ROW], quiet=True)
    assert capsys.readouterr().out == ""


def test_metrics_gain_columns_and_drop_later_rows(tmp_path):
    log = RunLog(tmp_path)
    log.write({"update": 1, "env_steps": 10, "loss": 0.5})
    log.write({"update": 2, "env_steps": 20, "loss": 0.25, "eval/rate": 1.0})
    log.write({"update": 3, "env_steps": 30, "loss": 0.125})
    log.close()
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "update,env_steps,loss,eval/rate\n1,10,0.5,\n2,20,0.25,1\n3,30,0.125,\n"
    log = RunLog(tmp_path, after_update=2)
    log.write({"update": 3, "env_steps": 30, "loss": 7.0})
    log.close()
    assert [r["loss"] for r in read_metrics(tmp_path)] == [0.5, 0.25, 7.0]
    assert "eval/rate" not in read_metrics(tmp_path)[2]


def test_tensorboard_shows_the_scalars_and_forgets_the_time_after_the_checkpoint(tmp_path):
    log = RunLog(tmp_path)
    for update in (1, 2, 3):
        log.write({"update": update, "env_steps": 10 * update, "loss": 0.5 * update})
    log.close()
    log = RunLog(tmp_path, after_update=2)
    log.write({"update": 3, "env_steps": 30, "loss": 7.0})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(10, 0.5), (20, 1.0), (30, 7.0)]


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        RunLog(tmp_path)
    assert caught.value.where == str(tmp_path / "metrics.csv")
