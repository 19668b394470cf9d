"""The maker's shapes for pictures, from a package that the user may install; none is copied here.

robot.yaml names the package and the MJCF model inside it (`visual:`). Its meshes are moved to our
links, decimated to about 20,000 faces in all (the UR5e's have 120,000, and software rendering is
bound by vertices), and cached in `$XDG_CACHE_HOME/rlinf_ros`, by default ~/.cache/rlinf_ros.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros.robot.description import RobotDescription, Visual
from rlinf_ros.robot.urdf import chain

FACES, MIN_FACES = 20000, 400  # in all, and per shape
CELL_M = 1e-3  # vertices this close are one
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LinkMesh:
    """vertices (V, 3) float32, m, in the link's frame; faces (F, 3) int32; rgba (4,)."""

    link: str
    vertices: np.ndarray
    faces: np.ndarray
    rgba: np.ndarray


def add_meshes(spec: Any, robot: RobotDescription) -> bool:
    """Replace the visuals of `spec` by meshes. False, with a log line, when they can't be had."""
    import mujoco

    found = load_meshes(robot)
    if found is None:
        return False
    links = {mesh.link for mesh in found}
    for body in spec.bodies:
        for geom in list(body.geoms):
            if body.name in links and geom.contype == 0 and geom.conaffinity == 0:
                spec.delete(geom)
    for i, mesh in enumerate(found):
        spec.add_mesh(
            name=f"visual_{i}",
            uservert=mesh.vertices.ravel(),
            userface=mesh.faces.ravel(),
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,  # it need not be closed
            smoothnormal=True,
        )
        spec.body(mesh.link).add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH,
            meshname=f"visual_{i}",
            material="plastic",
            rgba=mesh.rgba,
            contype=0,
            conaffinity=0,
            mass=0.0,
            group=2,
        )
    return True


def load_meshes(robot: RobotDescription) -> list[LinkMesh] | None:
    """Decimated meshes per link, from the cache or the package; None when it is not installed."""
    if robot.visual is None:
        return None
    model = _find(robot.visual)
    if model is None:
        _log.warning(
            "pictures use simple shapes: pip install %s fast-simplification brings the maker's",
            robot.visual.package,
        )
        return None
    source = f"{model.read_text()}{robot.fingerprint}{FACES}{MIN_FACES}{CELL_M}"
    key = hashlib.sha256(source.encode()).hexdigest()
    path = cache_dir() / f"{robot.name}-{key[:16]}.npz"
    try:
        return _read(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):  # absent or damaged
        pass
    meshes = _extract(model, robot)
    if meshes is not None:
        try:
            _write(path, meshes)
        except OSError as error:
            _log.warning("meshes are not cached: %s", error)
    return meshes


def cache_dir() -> Path:
    """Where derived files are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "rlinf_ros"


def _find(visual: Visual) -> Path | None:
    try:
        files = importlib.metadata.files(visual.package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.as_posix().endswith(visual.model):
            return Path(str(file.locate()))
    raise ConfigError(
        f"package '{visual.package}' has no file '{visual.model}'",
        where="visual.model",
        fix="install the version that robot.yaml was written for",
    )


def _extract(model_path: Path, robot: RobotDescription) -> list[LinkMesh] | None:
    """Read the MJCF model through MuJoCo, move each mesh into our link's frame, decimate."""
    import mujoco

    try:
        import fast_simplification
        import trimesh
    except ImportError:
        _log.warning("pictures use simple shapes: pip install fast-simplification brings meshes")
        return None
    model = mujoco.MjModel.from_xml_path(str(model_path))
    offsets = _offsets(model, robot)
    shapes = []
    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH):
        body, mesh = int(model.geom_bodyid[geom]), int(model.geom_dataid[geom])
        if body not in offsets:
            continue
        link, offset = offsets[body]
        start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        points = _transform(
            model.geom_pos[geom], model.geom_quat[geom], model.mesh_vert[start : start + count]
        )
        start, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        shape = trimesh.Trimesh(
            points @ offset[:3, :3].T + offset[:3, 3], model.mesh_face[start : start + count]
        )
        shape.merge_vertices()
        material = model.geom_matid[geom]
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
        shapes.append((link, shape, rgba))
    keep = FACES / sum(len(shape.faces) for _, shape, _ in shapes)
    out = []
    for link, shape, rgba in shapes:
        vertices, faces = _cluster(np.asarray(shape.vertices), np.asarray(shape.faces))
        count = max(MIN_FACES, int(keep * len(shape.faces)))
        if count < len(faces):
            vertices, faces = fast_simplification.simplify(
                vertices.astype(np.float32), faces.astype(np.int32), target_count=count
            )
        out.append(
            LinkMesh(link, np.asarray(vertices, np.float32), np.asarray(faces, np.int32), rgba)
        )
    return out


def _cluster(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge vertices within a grid cell: the slivers of thin rings would stop decimation."""
    cells = np.round(vertices / CELL_M).astype(np.int64)
    _, owner = np.unique(cells, axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    count = np.bincount(owner)
    merged = np.stack([np.bincount(owner, vertices[:, k]) / count for k in range(3)], axis=1)
    faces = owner[faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    return merged, faces[np.sort(first)]


def _offsets(model: Any, robot: RobotDescription) -> dict[int, tuple[str, np.ndarray]]:
    """For each body of the model that is one of our links: its name and pose in our link, (4, 4).

    Both arms are laid out at joint position 0, where they agree but for a turn of the base.
    """
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    _, joints = chain(robot.urdf_joints, robot.frames.base, robot.frames.tool)
    ours, pose = {}, np.eye(4)
    for joint in joints:
        pose = pose @ joint.origin
        ours[joint.child] = pose
    root = next(joint.parent for joint in joints if joint.movable)
    names = {mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, i): i for i in range(model.nbody)}
    bodies = {link: names[link] for link in ours if link in names}
    bodies[root] = int(model.body_parentid[names[next(iter(bodies))]])
    # the first joint axis that lies across the base's tells the turn between the two bases
    across = [joint for joint in joints if joint.movable][1]
    target = ours[across.child][:3, :3] @ across.axis
    theirs = data.xaxis[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, across.name)]
    turn = np.arctan2(target[1], target[0]) - np.arctan2(theirs[1], theirs[0])
    base = np.array([np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)])
    out = {}
    for link, body in bodies.items():
        pose = np.eye(4)
        pose[:3, :3] = data.xmat[body].reshape(3, 3)
        pose[:3, 3] = data.xpos[body]
        pose[:3] = _transform(np.zeros(3), base, pose[:3].T).T  # turn the columns
        inverse = np.linalg.inv(ours.get(link, np.eye(4)))
        out[body] = (link, inverse @ pose)
    return out


def _transform(position: np.ndarray, quat_wxyz: np.ndarray, points: np.ndarray) -> np.ndarray:
    import mujoco

    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat_wxyz)
    moved: np.ndarray = np.asarray(points, np.float64) @ matrix.reshape(3, 3).T + position
    return moved


def _read(path: Path) -> list[LinkMesh]:
    with np.load(path, allow_pickle=False) as file:
        links, rgba = file["links"], file["rgba"]
        return [
            LinkMesh(str(link), file[f"vertices_{i}"], file[f"faces_{i}"], rgba[i])
            for i, link in enumerate(links)
        ]


def _write(path: Path, meshes: list[LinkMesh]) -> None:
    arrays = {
        "links": np.array([m.link for m in meshes]),
        "rgba": np.array([m.rgba for m in meshes]),
    }
    for i, mesh in enumerate(meshes):
        arrays[f"vertices_{i}"], arrays[f"faces_{i}"] = mesh.vertices, mesh.faces
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
