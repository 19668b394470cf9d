# The environment that everything runs in: .venv and, once `make ros-build` has run, the messages.
# Source it in bash: `. .ci/env.sh`. The nodes come from the checkout, not from build/ros/install.

_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$_root/.venv/bin/activate"
if [ -z "${ROS_DISTRO:-}" ]; then # ROS 2 from PyPI: its prefix is the venv
    . "$_root/.venv/local_setup.sh"
fi
_messages="$_root/build/ros/install/rlinf_ros_msgs/share/rlinf_ros_msgs/package.bash"
if [ -f "$_messages" ]; then
    . "$_messages"
fi
unset _root _messages
