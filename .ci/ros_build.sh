#!/usr/bin/env bash
# Build both ROS packages with colcon into build/ros and check what was installed. Called by make,
# after bootstrap.py. Does nothing if no file changed since the last build that passed.
set -eo pipefail # no -u: the files that colcon writes read unset variables
cd "$(dirname "$0")/.."
. .ci/env.sh

stamp=build/ros/built
inputs=(.ci/env.sh .ci/ros_build.sh .ci/check_install.py .venv/rlinf_ros.stamp
    setup.py setup.cfg package.xml resource msgs rlinf_ros training robots launch)
now=$(find "${inputs[@]}" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then
    exit 0
fi

mkdir -p build/ros
touch build/COLCON_IGNORE
rm -rf "$stamp" build/ros/{build,install}/rlinf_ros # a removed file must not live on in the installed package
place=$(head -n 1 .venv/rlinf_ros.stamp) # interpreter and ROS 2: CMake remembers the first it saw
if [ "$(cat build/ros/place 2>/dev/null)" != "$place" ]; then
    rm -rf build/ros/build build/ros/install
fi
echo "$place" >build/ros/place

python -m colcon --log-base build/ros/log build --base-paths . msgs \
    --build-base build/ros/build --install-base build/ros/install \
    --cmake-args -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython3_EXECUTABLE="$VIRTUAL_ENV/bin/python"

. .ci/env.sh # the messages are there now
python .ci/check_install.py build/ros/install
echo "$now" >"$stamp"
