"""A recurrent network that is called like a filter: the baseline without particles."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mdpf import noise, trees
from mdpf.checks import check_batch
from mdpf.filters.belief import StepInfo
from mdpf.filters.parts import blank, encode, initial_belief, seen, smooth
from mdpf.filters.scan import Collect, collect_trajectory, scan
from mdpf.mixture import Mixture
from mdpf.models.protocol import Bandwidth, Encoder, Feature
from mdpf.models.recurrent import RecurrentNetwork
from mdpf.models.situated import MapRecurrentNetwork
from mdpf.noise import Source


class RecurrentBelief(NamedTuple):
    """A single estimate and the memory behind it.

    Args:
        posterior: The kernel on the estimate, a mixture of one component.
        hidden: What the layers of the memory show, ``[*batch, layer, memory_dim]``.
        cell: What they hold, ``[*batch, layer, memory_dim]``.
    """

    posterior: Mixture
    hidden: Tensor
    cell: Tensor

    @property
    def particles(self) -> Tensor:
        """Where the estimate is, ``[*batch, 1, d]``."""
        return self.posterior.locs


class RecurrentFilter(nn.Module):
    """A long short-term memory in place of a filter (LSTM).

    It believes in one state, smoothed by a kernel so that it has a density. It weighs nothing: the evidence it reports is zero.

    Args:
        network: Moves the estimate by what it sees.
        bandwidth: Makes the kernel of the posterior.
        encoder: Turns observations into features, once for a whole sequence. By default the observation is the feature.
    """

    def __init__(self, *, network: RecurrentNetwork | MapRecurrentNetwork, bandwidth: Bandwidth, encoder: Encoder | None = None):
        super().__init__()
        self.network = network
        self.bandwidth = bandwidth
        self.encoder = encoder

    def init(self, particles: Tensor, log_weights: Tensor | None = None, *, check_values: bool = True) -> RecurrentBelief:
        """Start at the mean of particles ``[*batch, n, d]`` with an empty memory; a single particle is kept as it is."""
        belief = initial_belief("RecurrentFilter.init", self.bandwidth, particles, log_weights, check_values)
        estimate = particles if particles.shape[-2] == 1 else belief.posterior.mean().unsqueeze(-2)
        memory = particles.new_zeros(*particles.shape[:-2], *self.network.memory_shape)
        return RecurrentBelief(self._posterior(estimate), memory, memory)

    def step(
        self,
        belief: RecurrentBelief,
        feature: Feature,
        action: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        num_particles: int | None = None,
        generator: Source = None,
    ) -> tuple[RecurrentBelief, StepInfo]:
        """Go one frame on; see ``ParticleFilter.step``. A missing feature is zero; nothing is drawn, there is one particle."""
        batch = belief.posterior.batch_shape
        if feature is None:
            feature = belief.particles.new_zeros(*batch, self.network.feature_dim)
        for name, value in (("feature", feature), ("action", action), ("observed", observed)):
            for tensor in trees.leaves(value):
                check_batch("step", tensor, name, batch, "One for each batch element.")
        estimate = belief.particles.squeeze(-2)
        estimate, hidden, cell = self.network(estimate, blank(observed, feature), action, belief.hidden, belief.cell)
        zero = torch.zeros_like(estimate[..., 0])
        info = StepInfo(log_evidence=zero, ess=torch.ones_like(zero), degenerate=torch.zeros_like(zero, dtype=torch.bool))
        return RecurrentBelief(self._posterior(estimate.unsqueeze(-2)), hidden, cell), info

    def forward(
        self,
        belief: RecurrentBelief,
        observations: Tensor,
        actions: Tensor | None = None,
        *,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
        truncate: int | None = None,
        collect: Collect = collect_trajectory,
        generator: Source = None,
    ) -> tuple[RecurrentBelief, Any]:
        """Go through a sequence; see ``mdpf.scan`` for the arguments. Returns the last belief and what was collected."""
        features = encode(self.encoder, observations, seen(observed, valid))
        return scan(
            self.step,
            belief,
            features,
            actions,
            observed=observed,
            valid=valid,
            truncate=truncate,
            collect=collect,
            generator=noise.source(generator),
        )

    def _posterior(self, estimate: Tensor) -> Mixture:
        return Mixture(estimate, torch.zeros_like(estimate[..., 0]), smooth(self.bandwidth, estimate))
