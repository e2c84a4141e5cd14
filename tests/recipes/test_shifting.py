"""The example of shifting samples, against what the two rules promise."""

import torch

from mdpf.evaluation.results import load
from mdpf.recipes import shifting
from mdpf.report import shifting as figure
from mdpf.report import style


def mixtures(make):
    return [make(torch.tensor(weight, dtype=torch.float64)) for weight in (0.5, 0.35)]


def test_carried_points_keep_their_place(generator):
    for make in (shifting.line_mixture, shifting.plane_mixture):
        before, after = mixtures(make)
        points = before.sample(200, generator=generator)
        moved = shifting.carry(before, after, points)
        torch.testing.assert_close(
            after.distributional_transform(moved), before.distributional_transform(points), rtol=0, atol=1e-9
        )


def test_weights_make_samples_stand_for_the_changed_mixture():
    """The bumps do not overlap: every point's weight is the ratio of its own bump's weights."""
    before, after = mixtures(shifting.line_mixture)
    points = torch.tensor([[-2.3], [-1.2], [1.1], [2.9]], dtype=torch.float64)
    expected = torch.tensor([0.7, 0.7, 1.3, 1.3], dtype=torch.float64)
    torch.testing.assert_close(shifting.reweigh(before, after, points), expected)


def test_run_writes_what_the_figure_needs(tmp_path):
    shifting.run(tmp_path)
    moved, weighed = load(tmp_path / "IRG.json"), load(tmp_path / "IWSG.json")
    assert moved.metric("line_largest_shift")[0] > 2
    assert weighed.metric("line_largest_weight")[0] < 1.31
    path = style.save(figure.draw(tmp_path), tmp_path / "shifting.png")
    assert path.read_bytes().startswith(b"\x89PNG")
