"""Parameters in one buffer: they stay views, and names say which columns are whose."""

import pytest
import torch
from torch import nn

from mdpf.models import Linear, PReLU, stack_runs
from mdpf.training.flat import FlatParameters


def make(num_runs=3):
    torch.manual_seed(0)
    singles = [nn.ModuleDict({"head": nn.Sequential(Linear(2, 3), PReLU()), "heads": Linear(3, 1)}) for _ in range(num_runs)]
    return stack_runs(singles)


def test_parameters_are_views_that_follow_the_buffer_and_lead_it():
    module = make()
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    flat = FlatParameters(module, 3)
    assert flat.values.shape == (3, 6 + 3 + 1 + 3 + 1)
    for name, parameter in module.named_parameters():
        slot = flat.slots[name]
        assert torch.equal(parameter, before[name])
        assert torch.equal(flat.values[:, slot.start : slot.stop].reshape(parameter.shape), parameter)
    for _ in range(2):
        output = module["heads"](module["head"](torch.ones(3, 5, 2)))
        output.square().sum().backward()
        flat.values.sub_(0.1 * flat.collect_gradients())
    assert not torch.equal(module["heads"].weight, before["heads.weight"])
    flat.values.fill_(2.0)
    assert all((parameter == 2).all() for parameter in module.parameters())
    with torch.no_grad():
        module["head"][1].slope.fill_(7.0)
    assert (flat.values[:, flat.slots["head.1.slope"].start] == 7).all()


def test_a_second_buffer_takes_over_from_the_first():
    module = make()
    first = FlatParameters(module, 3)
    values = first.values.clone()
    second = FlatParameters(module, 3)
    assert torch.equal(second.values, values)
    first.values.zero_()
    assert torch.equal(second.values, values)
    assert second.values.data_ptr() == next(module.parameters()).data_ptr()


def test_gradients_are_collected_once_and_zero_where_there_is_none():
    module = make()
    flat = FlatParameters(module, 3)
    loss = module["head"][0](torch.ones(3, 2)).sin().sum()
    expected = torch.autograd.grad(loss, list(module["head"][0].parameters()))
    module["head"][0](torch.ones(3, 2)).sin().sum().backward()
    gradients = flat.collect_gradients()
    torch.testing.assert_close(gradients[:, :9], torch.cat([part.reshape(3, -1) for part in expected], 1))
    assert not gradients[:, 9:].any()
    assert not flat.collect_gradients().any()


def test_columns_go_to_the_longest_name():
    flat = FlatParameters(make(), 3)
    columns = flat.columns({"head": 0.5, "": 1.0, "head.0.bias": 0.25})
    assert columns.tolist() == [0.5] * 6 + [0.25] * 3 + [0.5] + [1.0] * 4
    assert flat.columns({"head.1": 2.0}).tolist() == [0.0] * 9 + [2.0] + [0.0] * 4


def test_views_give_gradients_to_what_is_learned_and_share_the_layout_of_the_buffer():
    module = make()
    flat = FlatParameters(module, 3)
    values = flat.values.clone().requires_grad_()
    learned = flat.learned(flat.columns({"heads": 1.0}))
    assert learned == {"heads.weight", "heads.bias"}
    views = flat.views(values, learned)
    for name, parameter in module.named_parameters():
        assert torch.equal(views[name], parameter)
    sum(view.square().sum() for view in views.values()).backward()
    assert torch.equal(values.grad, torch.where(flat.columns({"heads": 1.0}) > 0, 2 * flat.values, 0.0))


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match="leading run axis of 2, got .*'head.0.weight'"):
        FlatParameters(make(), 2)
    with pytest.raises(ValueError, match="leading run axis of 1, got {}"):
        FlatParameters(nn.ReLU(), 1)
    module = make()
    module["heads"].double()
    with pytest.raises(TypeError, match="dtype"):
        FlatParameters(module, 3)
    with pytest.raises(ValueError, match=r"got 'hea'. The parts are \['head', 'heads'\]"):
        FlatParameters(make(), 3).columns({"hea": 1.0})
