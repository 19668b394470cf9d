"""rlinf_ros: run a policy trained in simulation on an arm, through one contract and one pipeline.

Rooms: contract, robot, pipeline, policy, safety, runtime, ros. Only `ros` may import rclpy.
"""

__version__ = "0.1.0"
