"""rlinf-ros: what it prints, and that a fault gives a readable error and a non-zero exit code."""

import subprocess
import sys

import pytest

from rlinf_ros.cli import main
from rlinf_ros.robot.description import load_robot

CONTRACT = load_robot("ur5e").path.parent / "contracts" / "reach.yaml"


def test_describe_a_robot(capsys):
    assert main(["describe", "ur5e"]) == 0
    out = capsys.readouterr().out
    assert "wrist_3_joint" in out and "3.1416" in out and "tool0" in out


def test_describe_a_contract(capsys):
    assert main(["describe", str(CONTRACT)]) == 0
    out = capsys.readouterr().out
    assert (
        "30:33" in out and "goal_rotation_error" in out and "joint_delta_from_last_command" in out
    )


def test_a_contract_for_another_robot_is_refused(capsys):
    assert main(["describe", str(CONTRACT), "--robot", "ur5"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "this robot is 'ur5'" in error


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("unit: rad/s", "unit: deg/s"), "allowed: rad/s"),
        (("kind: tcp_position", "kind: tcp_positon"), "did you mean 'tcp_position'?"),
        (("clip: 1.0", "clip: 1.0\n  clp: 2.0"), "unknown key 'clp'"),
        (("- wrist_3_joint", ""), "offset: expected 5 numbers, got 6 values"),
    ],
)
def test_a_bad_contract_is_one_clear_error(tmp_path, capsys, edit, says):
    text = CONTRACT.read_text()
    assert edit[0] in text
    path = tmp_path / "c.yaml"
    path.write_text(text.replace(*edit))
    assert main(["describe", str(path)]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_verify_of_nothing(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "none")]) == 1
    assert "rlinf-train export" in capsys.readouterr().err
    assert main(["verify", str(tmp_path)]) == 1


def test_usage_is_exit_code_2():
    with pytest.raises(SystemExit) as stop:
        main(["verify"])
    assert stop.value.code == 2


def test_help_without_ros_or_torch():
    done = subprocess.run(
        [sys.executable, "-c", "from rlinf_ros.cli import main; main(['--help'])"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "describe" in done.stdout and "verify" in done.stdout
