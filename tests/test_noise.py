"""One draw, whatever the source: torch's stream, a generator, a recorder or the recorded numbers."""

import pytest
import torch

from mdpf import noise

DRAWS = {"uniform": noise.uniform, "normal": noise.normal}


@pytest.fixture(params=DRAWS.values(), ids=DRAWS.keys())
def draw(request):
    return request.param


def two_draws(like, generator=None):
    """What a function of the library does: open the source, then draw more than once."""
    generator = noise.source(generator)
    return noise.uniform((3, 4), like, generator), noise.normal((3, 2), like, generator)


def test_draw_has_shape_dtype_and_device_of_like(draw, dtype, generator):
    drawn = draw((2, 5), torch.zeros((), dtype=dtype), generator)
    assert drawn.shape == (2, 5)
    assert drawn.dtype == dtype


def test_uniform_stays_in_the_half_open_interval(dtype, generator):
    drawn = noise.uniform((100_000,), torch.zeros((), dtype=dtype), generator)
    assert drawn.min() >= 0
    assert drawn.max() < 1


def test_equal_generators_give_equal_draws(draw):
    like = torch.zeros(())
    first, second = (draw((4,), like, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)


def test_generator_leaves_the_global_stream_alone(draw, generator):
    before = torch.get_rng_state()
    draw((4,), torch.zeros(()), generator)
    assert torch.equal(torch.get_rng_state(), before)


def test_none_draws_from_the_global_stream(draw):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        drawn = draw((4,), torch.zeros(()))
        torch.manual_seed(3)
        assert torch.equal(drawn, draw((4,), torch.zeros(())))


def test_recorder_draws_what_its_generator_would():
    like = torch.zeros(())
    recorder = noise.Recorder(torch.Generator().manual_seed(1))
    recorded = two_draws(like, recorder)
    plain = two_draws(like, torch.Generator().manual_seed(1))
    assert all(torch.equal(a, b) for a, b in zip(recorded, plain, strict=True))


def test_replay_repeats_the_record_as_often_as_wanted(generator):
    like = torch.zeros(())
    recorder = noise.Recorder(generator)
    recorded = two_draws(like, recorder)
    for _ in range(2):
        replayed = two_draws(like, recorder.noise)
        assert all(torch.equal(a, b) for a, b in zip(recorded, replayed, strict=True))


def test_replay_follows_the_dtype_of_like(generator):
    recorder = noise.Recorder(generator)
    two_draws(torch.zeros((), dtype=torch.float64), recorder)
    assert [drawn.dtype for drawn in two_draws(torch.zeros(()), recorder.noise)] == [torch.float32, torch.float32]


def test_slice_of_a_record_is_the_noise_of_that_element(generator):
    recorder = noise.Recorder(generator)
    whole = two_draws(torch.zeros(()), recorder)
    sliced = noise.Noise(tuple(drawn[1:2] for drawn in recorder.noise.draws))
    stream = noise.source(sliced)
    assert torch.equal(noise.uniform((1, 4), torch.zeros(()), stream), whole[0][1:2])
    assert torch.equal(noise.normal((1, 2), torch.zeros(()), stream), whole[1][1:2])


def test_what_a_plan_draws_is_different_for_every_run_and_every_draw():
    plan = noise.Plan(("normal", "uniform", "normal"), ((3, 4, 2), (3, 5), (3, 4, 2)))
    draws = plan.draw(torch.zeros((), dtype=torch.float64), torch.Generator().manual_seed(0)).draws
    assert [tuple(draw.shape) for draw in draws] == list(plan.shapes)
    numbers = torch.cat([draw.flatten() for draw in draws])
    assert numbers.unique().numel() == numbers.numel()


def test_source_opens_noise_once_and_passes_the_rest_through(generator):
    assert isinstance(noise.source(noise.Noise(())), noise.Replay)
    for stream in (None, generator, noise.Recorder(), noise.Replay(noise.Noise(()))):
        assert noise.source(stream) is stream


def test_replay_of_other_shapes_says_so(draw):
    with pytest.raises(ValueError, match=r"got \[2, 3\]. It was recorded for other shapes; record it again"):
        draw((2, 4), torch.zeros(()), noise.Noise((torch.zeros(2, 3),)))


def test_replay_past_the_end_says_so(draw):
    stream = noise.source(noise.Noise((torch.zeros(2),)))
    draw((2,), torch.zeros(()), stream)
    with pytest.raises(ValueError, match=r"got 1. It was recorded for another call; record it again"):
        draw((2,), torch.zeros(()), stream)
