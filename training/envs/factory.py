"""From the `env` section of a recipe to environments."""

from __future__ import annotations

from pathlib import Path

from rlinf_ros.contract.errors import ConfigError, nearest
from rlinf_ros.contract.load import load_contract
from rlinf_ros.contract.model import Contract
from rlinf_ros.robot.description import RobotDescription, load_robot
from rlinf_ros_training.config import EnvConfig

from .mujoco_env import MujocoVecEnv
from .randomize import Randomization
from .tasks.task import find_task


def find_contract(name: str, robot: RobotDescription) -> Contract:
    """`name` of robots/<robot>/contracts/<name>.yaml, or a path to a .yaml file of your own."""
    if name.endswith((".yaml", ".yml")):
        return load_contract(name)
    folder = robot.path.parent / "contracts"
    known = sorted(p.stem for p in folder.glob("*.yaml"))
    if name not in known:
        raise ConfigError(
            f"robot '{robot.name}' has no contract '{name}'",
            where="env.contract",
            allowed=[*known, "path/to/contract.yaml"],
            fix=nearest(name, known),
        )
    return load_contract(Path(folder, f"{name}.yaml"))


def make_env(config: EnvConfig, num_envs: int, *, training: bool = True) -> MujocoVecEnv:
    """`num_envs` environments; for evaluation the nominal model, without randomisation."""
    robot = load_robot(config.robot)
    task = find_task(config.task)
    contract = find_contract(config.contract or task.contract, robot)
    r = config.randomization
    return MujocoVecEnv(
        contract,
        robot,
        task,
        num_envs,
        threads=config.threads,
        randomization=Randomization(r.actuator_gain, r.joint_damping, r.link_mass)
        if training
        else None,
        stagger=training,
    )
