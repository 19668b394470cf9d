"""Make .venv ready: `python3 .ci/bootstrap.py [--ros]`. Called by make; standard library only.

Finds a Python 3.10-3.13, checks what can't be installed by pip, and installs the package, its tools
and, where no ROS 2 is sourced, ROS 2 from PyPI into .venv. Does nothing if the last install still
fits. What is missing is said in one line each, and the exit status is 1. With --ros it also checks
what building messages needs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "rlinf_ros.stamp"  # two lines, see keys(); there only after a complete install
LOG = ROOT / "build" / "venv.log"
OLDEST, NEWEST = (3, 10), (3, 13)
NEEDED_GB = 4.0
PIP_TIMEOUT_S = 3600

PROBE = """
import importlib.metadata, importlib.util, json, os, sys, sysconfig
def imports(name):
    try:
        __import__(name)
    except Exception:
        return False
    return True
print(json.dumps({
    "executable": getattr(sys, "_base_executable", sys.executable),
    "prefix": sys.base_prefix,
    "in_venv": sys.prefix != sys.base_prefix,
    "version": sys.version_info[:3],
    "venv": bool(importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")),
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "rclpy": bool(os.environ.get("ROS_DISTRO")) and imports("rclpy"),
    "packages": [d.metadata["Name"] for d in importlib.metadata.distributions()]
                if os.environ.get("ROS_DISTRO") else [],
}))
"""

# What the wheels' CMake files name, and which folder of this Python each stands for.
CMAKE_NUMPY = re.compile(
    r"/opt/python/cp\d+-cp\d+/lib/python3\.\d+/site-packages/numpy/_?core/include"
)
CMAKE_PYTHON = re.compile(r"/opt/python/cp\d+-cp\d+/include/python3\.\d+")


class MissingError(Exception):
    """Something that the user has to install; its arguments are one line each."""


def probe(python: str) -> dict | None:
    """Facts about an interpreter (of a virtual environment: about the one that it was made from),
    or None if it can't be started."""
    try:
        done = subprocess.run(
            [python, "-c", PROBE],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        facts = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None
    return probe(facts["executable"]) if facts and facts["in_venv"] else facts


def find_python(distro: str) -> dict:
    """The interpreter to use: $PYTHON, or the first of python3, python3.13 ... 3.10 that fits.

    With a ROS 2 sourced (`distro` not empty) it must be one that imports that ROS 2's rclpy.
    """
    names = ["python3"] + [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    if os.environ.get("PYTHON"):
        names = [os.environ["PYTHON"]]
    span = f"{OLDEST[0]}.{OLDEST[1]}-{NEWEST[0]}.{NEWEST[1]}"
    fitting = []
    for name in names:
        facts = probe(name)
        if facts and OLDEST <= tuple(facts["version"][:2]) <= NEWEST:
            fitting.append(facts)
            if not distro or facts["rclpy"]:
                return facts
    if fitting:
        raise MissingError(
            f"ROS 2 {distro} is sourced, but {fitting[0]['executable']} can't import its rclpy:"
            " put that ROS 2's Python first on PATH, or use a shell in which no ROS 2 is sourced"
        )
    raise MissingError(
        f"no Python {span} found (tried {', '.join(names)}): install one or set PYTHON=PATH"
    )


def check_tools(python: dict, distro: str, *, ros: bool, install: bool) -> None:
    """Raise MissingError with a line for each thing that pip can't install."""
    version = "{}.{}".format(*python["version"])
    lines = []
    if install and not python["venv"]:
        lines.append(f"{python['executable']} has no venv module: install python{version}-venv")
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if install and free_gb < NEEDED_GB:
        lines.append(
            f"{free_gb:.1f} GB free in {ROOT}, {NEEDED_GB:.0f} GB needed for .venv: free some"
        )
    if ros:
        compiler = os.environ.get("CXX") or "g++"
        if not shutil.which(compiler.split()[0]) and not shutil.which("c++"):
            lines.append(f"no C++ compiler ({compiler}), needed to build messages: install g++")
        if not shutil.which("cmake"):
            lines.append("no cmake, needed to build messages: install cmake")
        if not python["headers"]:
            lines.append(f"no Python.h of {python['executable']}: install python{version}-dev")
        if not distro and not wheels_exist():
            lines.append(
                f"ROS 2 from PyPI exists for Linux on x86_64 only, this is {sys.platform} on"
                f" {platform.machine()}: source a ROS 2 installation first"
            )
    if lines:
        raise MissingError(*lines)


def wheels_exist() -> bool:
    """Whether PyPI has ROS 2 for this machine."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def keys(python: dict, distro: str) -> tuple[str, str]:
    """Where the install stands (interpreter, ROS 2, folder), and a hash of what goes into it."""
    digest = hashlib.sha256()
    for path in (ROOT / "setup.py", ROOT / "constraints.txt", Path(__file__)):
        digest.update(path.read_bytes())
    place = [python["prefix"], python["version"], distro, str(ROOT)]
    return json.dumps(place), digest.hexdigest()


def lock() -> int:
    """Descriptor of a lock that one install at a time can hold."""
    path = ROOT / "build" / "venv.lock"
    path.parent.mkdir(exist_ok=True)
    held = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MissingError(
            "another make still installs into .venv: try again when it is done"
        ) from None
    return held


def run(command: list[str], held: int, statuses: tuple[int, ...] = (0,)) -> None:
    """Run a step of the install, its output kept in LOG. It inherits the lock `held`: a pip whose
    make was killed keeps the next one out for as long as it writes."""
    with LOG.open("ab") as log:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            timeout=PIP_TIMEOUT_S,
            pass_fds=[held],
        )
    if done.returncode not in statuses:
        errors = [line for line in LOG.read_text(errors="replace").splitlines() if "ERROR" in line]
        cause = errors[-1] if errors else f"exit status {done.returncode}"
        raise MissingError(f"{' '.join(command[:4])} ... failed: {cause} (all of it: {LOG})")


def constraints(python: dict) -> Path:
    """constraints.txt less what the sourced ROS 2's Python already has: there, its packages win."""
    present = {re.sub(r"[-_.]+", "-", name).lower() for name in python["packages"] if name}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    kept = [line for line in lines if line.split("==")[0].strip().lower() not in present]
    path = VENV / "constraints.txt"
    path.write_text("\n".join(kept) + "\n")
    return path


def patch_cmake() -> None:
    """Point the wheels' CMake files at this Python; they name folders of their build machine."""
    code = (
        "import json, numpy, sysconfig;"
        "print(json.dumps([numpy.get_include(), sysconfig.get_path('include')]))"
    )
    done = subprocess.run(
        [str(VENV_PYTHON), "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    numpy_include, python_include = json.loads(done.stdout)
    for path in (VENV / "share").rglob("*.cmake"):
        old = path.read_text()
        new = CMAKE_PYTHON.sub(
            lambda _: python_include, CMAKE_NUMPY.sub(lambda _: numpy_include, old)
        )
        if new != old:
            path.write_text(new)


def write_local_setup() -> None:
    """Let `source build/ros/install/setup.bash` find the wheels as it would a system's ROS 2."""
    text = "".join(
        f'export {name}="{VENV}"\n' for name in ("AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH")
    )
    for shell in ("sh", "bash", "zsh"):
        (VENV / f"local_setup.{shell}").write_text(text)


def install(python: dict, distro: str) -> None:
    """Bring .venv up to date; STAMP goes first and comes last, so a broken install is redone."""
    held = lock()
    LOG.unlink(missing_ok=True)
    place, content = keys(python, distro)
    if STAMP.is_file() and STAMP.read_text().splitlines()[0] == place:
        print("Updating .venv: setup.py or constraints.txt changed.", flush=True)
        STAMP.unlink()
    else:
        source = f"the sourced ROS 2 {distro}" if distro else "ROS 2 from PyPI"
        version = "{}.{}.{}".format(*python["version"])
        print(f"Making .venv (Python {version}, {source}): takes some minutes, once.", flush=True)
        see_ros = ["--system-site-packages"] * bool(distro)
        run([python["executable"], "-m", "venv", "--clear", *see_ros, str(VENV)], held)
        (VENV / "COLCON_IGNORE").touch()
    extras = ["train", "meshes", "dev", "colcon"]
    if not distro and wheels_exist():
        extras.append("ros")
        write_local_setup()
    venv_python = [str(VENV_PYTHON), "-m"]
    pip = [*venv_python, "pip", "--disable-pip-version-check", "--no-input", "install"]
    target = f".[{','.join(extras)}]"
    run([*pip, "--no-compile", "-c", str(constraints(python)), "-e", target], held)
    # What pip left out, on all cores; -qq and any status: some packages ship templates as *.py.
    run([*venv_python, "compileall", "-qq", "-j", "0", str(VENV / "lib")], held, statuses=(0, 1))
    if "ros" in extras:
        patch_cmake()
    STAMP.write_text(f"{place}\n{content}")


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends pip too
    distro = os.environ.get("ROS_DISTRO", "")
    try:
        python = find_python(distro)
        ready = STAMP.is_file() and STAMP.read_text() == "\n".join(keys(python, distro))
        check_tools(python, distro, ros="--ros" in sys.argv[1:], install=not ready)
        if not ready:
            install(python, distro)
    except MissingError as error:
        for line in error.args:
            print(f"error: {line}", file=sys.stderr)
        return 1
    except subprocess.TimeoutExpired as error:
        print(f"error: no end after {error.timeout:.0f} s: {error.cmd}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next make starts the install again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
