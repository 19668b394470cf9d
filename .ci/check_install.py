"""Check what colcon installed: `check_install.py PREFIX` prints one line, or the faults."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files_below(folder: Path) -> set[str]:
    """Relative paths of the files in `folder`, compiled Python left out."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def faults_of_share(prefix: Path) -> list[str]:
    """Files of launch/ and robots/ that the installed package lacks."""
    share = prefix / "rlinf_ros" / "share" / "rlinf_ros"
    return [
        f"not installed: {top}/{name}"
        for top in ("launch", "robots")
        for name in sorted(files_below(ROOT / top) - files_below(share / top))
    ]


def faults_of_executables(prefix: Path) -> list[str]:
    """Executables that `ros2 run` would not find."""
    folder = prefix / "rlinf_ros" / "lib" / "rlinf_ros"
    scripts = [
        s for s in entry_points(group="console_scripts") if s.value.startswith("rlinf_ros.ros.")
    ]
    return [f"not installed: {s.name}" for s in scripts if not (folder / s.name).is_file()]


def faults_of_messages() -> list[str]:
    """Interfaces of msgs/ whose type support can't be loaded."""
    faults = []
    for kind in ("msg", "action"):
        for path in sorted((ROOT / "msgs" / kind).glob(f"*.{kind}")):
            try:
                module = importlib.import_module(f"rlinf_ros_msgs.{kind}")
                getattr(module, path.stem).__class__.__import_type_support__()
            except Exception as error:
                faults.append(f"can't load rlinf_ros_msgs/{kind}/{path.stem}: {error}")
    return faults


def main() -> int:
    prefix = Path(sys.argv[1]).resolve()
    faults = [*faults_of_share(prefix), *faults_of_executables(prefix), *faults_of_messages()]
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    if faults:
        return 1
    launch, robots = (len(files_below(ROOT / top)) for top in ("launch", "robots"))
    kinds = ", ".join(f"{len(list((ROOT / 'msgs' / k).glob('*')))} {k}" for k in ("msg", "action"))
    print(f"ros-build: rlinf_ros ({launch} launch, {robots} robot files), rlinf_ros_msgs ({kinds})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
