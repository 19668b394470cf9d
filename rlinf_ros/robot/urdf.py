"""The joints of a URDF as plain arrays; the only module that touches yourdfpy.

yourdfpy reads, we keep numbers. (urdfpy, which older projects ask for, fails to import on Python
3.10 and later and is no longer maintained.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlinf_ros.contract.errors import ConfigError, nearest


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """One joint: `child` sits at `origin` in `parent` and, when movable, turns about `axis`.

    origin: (4, 4) transform parent ← child at joint position 0, m. axis: (3,) unit vector in the
    child. Limits are None where the URDF gives none; rad, rad/s, N·m.
    """

    name: str
    kind: str
    parent: str
    child: str
    origin: np.ndarray
    axis: np.ndarray
    lower: float | None
    upper: float | None
    velocity: float | None
    effort: float | None

    @property
    def movable(self) -> bool:
        return self.kind in ("revolute", "continuous")


def read_urdf(path: str | Path) -> dict[str, UrdfJoint]:
    """All joints of the URDF by name. Joint types other than fixed, revolute, continuous fail."""
    import yourdfpy  # 1-2 s to import: only who needs a robot pays for it
    from lxml import etree  # type: ignore[import-untyped]

    path = Path(path)
    if not path.is_file():
        raise ConfigError("no such URDF", where=str(path), fix="check 'urdf:' in robot.yaml")
    try:
        # yourdfpy goes on with what it could read of a cut file; that must not drive an arm
        etree.parse(str(path), etree.XMLParser(resolve_entities=False))
        model = yourdfpy.URDF.load(str(path), build_scene_graph=False, load_meshes=False)
    except Exception as error:  # lxml and yourdfpy raise a dozen kinds for a broken file
        raise ConfigError(f"not a readable URDF: {error}", where=str(path)) from error
    joints: dict[str, UrdfJoint] = {}
    for joint in model.robot.joints:
        where = f"{path}:joint '{joint.name}'"
        if joint.name in joints:
            raise ConfigError("joint appears twice", where=where, fix="rename one of the two")
        if joint.type not in ("fixed", "revolute", "continuous"):
            raise ConfigError(
                f"joint type {joint.type!r} is not supported",
                where=where,
                allowed=("fixed", "revolute", "continuous"),
            )
        axis = np.array([1.0, 0.0, 0.0] if joint.axis is None else joint.axis, dtype=np.float64)
        limit = joint.limit
        joints[joint.name] = UrdfJoint(
            name=joint.name,
            kind=joint.type,
            parent=joint.parent,
            child=joint.child,
            origin=np.eye(4) if joint.origin is None else np.array(joint.origin, dtype=np.float64),
            axis=axis / np.linalg.norm(axis),
            lower=limit.lower if limit else None,
            upper=limit.upper if limit else None,
            velocity=limit.velocity if limit else None,
            effort=limit.effort if limit else None,
        )
    return joints


def chain(
    joints: Mapping[str, UrdfJoint], base: str, tool: str, *, where: str = "urdf"
) -> tuple[np.ndarray, tuple[UrdfJoint, ...]]:
    """The way from link `base` to link `tool`: a constant transform first, then joints downwards.

    Returns (start (4, 4), joints). `start` leads from `base` up over fixed joints to the link where
    the joints begin, so a base beside the tree's trunk (UR's `base`) works too.
    """
    links = {joint.parent for joint in joints.values()} | {j.child for j in joints.values()}
    for link in (base, tool):
        if link not in links:
            raise ConfigError(
                f"no link '{link}'", where=where, allowed=sorted(links), fix=nearest(link, links)
            )
    above = {joint.child: joint for joint in joints.values()}
    down = _ancestry(above, tool, where)
    passed = {tool, *(joint.parent for joint in down)}
    start, link = np.eye(4), base
    while link not in passed:
        if link not in above or above[link].movable:
            raise ConfigError(
                f"link '{base}' is not rigidly connected to the chain of '{tool}'",
                where=where,
                fix="take a base that is fixed to the arm's root",
            )
        start, link = start @ _inverse(above[link].origin), above[link].parent
    first = next((i for i, joint in enumerate(down) if joint.parent == link), len(down))
    return start, tuple(down[first:])


def _ancestry(above: Mapping[str, UrdfJoint], link: str, where: str) -> list[UrdfJoint]:
    """Joints from the root down to `link`."""
    path: list[UrdfJoint] = []
    while link in above:
        if len(path) > len(above):
            raise ConfigError("the joints form a loop", where=where)
        path.append(above[link])
        link = above[link].parent
    return path[::-1]


def _inverse(transform: np.ndarray) -> np.ndarray:
    inverse = np.eye(4)
    inverse[:3, :3] = transform[:3, :3].T
    inverse[:3, 3] = -transform[:3, :3].T @ transform[:3, 3]
    return inverse
