"""The policy as ONNX Runtime runs it: on the CPU, one thread, no copy of the normaliser outside."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime

from ..contract.errors import ConfigError


class OnnxPolicy:
    """Observation (N, D) float32 → action (N, A) float32. Stateless; deterministic."""

    def __init__(self, onnx: bytes, observation_size: int, action_size: int, where: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # a control tick must not wait for a busy thread pool
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                onnx, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime raises many unrelated types
            raise ConfigError(f"ONNX Runtime cannot load it: {error}", where=where) from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1:
            raise ConfigError(
                f"has {len(inputs)} inputs and {len(outputs)} outputs",
                where=where,
                allowed="one input (observation) and one output (action)",
            )
        for what, value, size in (
            ("observation", inputs[0], observation_size),
            ("action", outputs[0], action_size),
        ):
            if value.type != "tensor(float)" or len(value.shape) != 2 or value.shape[1] != size:
                raise ConfigError(
                    f"{what} is {value.type} {value.shape}",
                    where=where,
                    allowed=f"tensor(float) [N, {size}], as the contract says",
                )
        self._input, self._output = inputs[0].name, outputs[0].name

    def __call__(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Action for each row of the observation."""
        return self._session.run([self._output], {self._input: observation})[0]
