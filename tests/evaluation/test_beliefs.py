"""A file of beliefs gives back the beliefs it was made of."""

import numpy as np
import pytest
import torch

from mdpf import models
from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import beliefs
from mdpf.filters import ParticleFilter
from mdpf.kernels import Biweight, Epanechnikov, Gaussian, Product, VonMises
from mdpf.mixture import Mixture
from mdpf.resamplers import Discrete
from mdpf.spaces import StateSpace

SPACE = StateSpace.of("x", "y", theta="angle")


def tracked(linear=Gaussian, *, length=4, scene=None):
    """A small untrained filter's run over two sequences."""
    pf = ParticleFilter(
        dynamics=models.ResidualDynamics(SPACE, bound=(1.0,) * 4, hidden_dim=4),
        measurement=models.ScoreNetwork(SPACE, feature_dim=2, particle_sizes=(4,), hidden_dim=4),
        bandwidth=models.LearnedBandwidth(SPACE, (0.5, 0.6, 0.1), (0.1, 0.1, 0.01), linear),
        resampler=Discrete(),
    )
    data = SequenceBatch(torch.randn(2, length, 3), torch.randn(2, length, 2))
    with torch.no_grad():
        belief = pf.init(data.states[:, 0, None] + torch.randn(2, 5, 3))
        _, trajectory = pf(belief, data.observations[:, 1:])
    return (
        belief.posterior,
        trajectory,
        beliefs.record(belief.posterior, trajectory.posterior, trajectory.info, SPACE, data=data, scene=scene),
    )


@pytest.mark.parametrize("linear", [Gaussian, Epanechnikov, Biweight])
def test_posterior_of_the_file_is_the_posterior_of_the_filter(linear, tmp_path):
    initial, trajectory, recorded = tracked(linear, scene={"sensor": [-5.0, 0.0]})
    beliefs.write(tmp_path / "beliefs.npz", recorded._replace(notes={"weights": "abc"}))
    found = beliefs.read(tmp_path / "beliefs.npz")
    assert found.notes == {"weights": "abc"}
    x = found.particles + 0.1
    torch.testing.assert_close(found.posterior.log_prob(x)[:, 1:], trajectory.posterior.log_prob(x[:, 1:]))
    torch.testing.assert_close(found.posterior.log_prob(x)[:, 0], initial.log_prob(x[:, 0]))
    torch.testing.assert_close(found.mean[:, 1:], trajectory.posterior.mean())
    torch.testing.assert_close(found.ess[:, 1:], trajectory.info.ess)
    assert (found.ess[:, 0] - 5).abs().max() < 1e-4
    assert found.log_evidence[:, 0].tolist() == [0.0, 0.0]
    assert found.space == SPACE
    assert found.scene == {"sensor": [-5.0, 0.0]}
    torch.testing.assert_close(found.data.states, recorded.data.states)
    torch.testing.assert_close(found.data.observations, recorded.data.observations)


def test_sequences_are_taken_with_their_data():
    *_, recorded = tracked()
    taken = recorded.take(slice(1, 2))
    assert taken.num_sequences == 1
    torch.testing.assert_close(taken.particles[0], recorded.particles[1])
    torch.testing.assert_close(taken.data.states[0], recorded.data.states[1])


def test_file_without_truth_is_read_and_unknown_states_are_marked(tmp_path):
    *_, recorded = tracked()
    beliefs.write(tmp_path / "alone.npz", recorded._replace(data=None))
    assert beliefs.read(tmp_path / "alone.npz").data is None
    states = recorded.data.states.clone()
    states[0, 2] = torch.nan
    beliefs.write(tmp_path / "gaps.npz", recorded._replace(data=recorded.data._replace(states=states)))
    assert (~beliefs.read(tmp_path / "gaps.npz").data.targets).nonzero().tolist() == [[0, 2]]


def test_files_are_told_apart(tmp_path):
    *_, recorded = tracked()
    beliefs.write(tmp_path / "beliefs.npz", recorded)
    np.savez(tmp_path / "other.npz", states=np.zeros(3))
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    assert [beliefs.is_file_of_beliefs(tmp_path / f"{name}.npz") for name in ("beliefs", "other", "broken")] == [True, False, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": None}, "got one without mean. `mdpf track` writes such files."),
        ({"particles": np.zeros((2, 3))}, "needs particles of shape \\[n, T, N, d\\], got"),
        ({"ess": np.zeros((2, 9))}, "needs ess of shape \\[2, 4\\], got a float32 tensor of shape \\[2, 9\\]"),
        ({"kernel": np.array("triangle")}, "got 'triangle'. Write the file again."),
        ({"scene": np.array("{")}, "needs scene and notes in JSON"),
        ({"observations": np.zeros((3, 4, 2))}, "needs observations of the same frames as mean"),
    ],
)
def test_odd_files_are_refused(change, message, tmp_path):
    *_, recorded = tracked()
    beliefs.write(tmp_path / "beliefs.npz", recorded)
    arrays = dict(np.load(tmp_path / "beliefs.npz")) | change
    np.savez(tmp_path / "odd.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=message):
        beliefs.read(tmp_path / "odd.npz")


def test_mixed_kernels_are_refused():
    kernel = Product((Gaussian(torch.ones(1)), Biweight(torch.ones(1)), VonMises(torch.ones(1))))
    mixture = Mixture(torch.zeros(2, 5, 3), torch.zeros(2, 5), kernel)
    with pytest.raises(TypeError, match="got Gaussian, Biweight, VonMises"):
        beliefs.record(mixture, mixture, None, SPACE)
