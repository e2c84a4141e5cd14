"""One training shared by two processes: in full batches exactly, in small ones in distribution, what one process does."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from mdpf.data.sequences import SequenceBatch
from mdpf.evaluation import results
from mdpf.models import Linear, stack_runs
from mdpf.reliability import kills
from mdpf.training import processes
from mdpf.training.fit import fit
from mdpf.training.stages import Cosine, Stage

ROOT = Path(__file__).parents[2]


def squares(filter, batch, *, generator=None):
    """How far a linear map of the observations is from the states, for each run."""
    counted = batch.targets.unsqueeze(-1)
    return ((filter(batch.observations) - batch.states).square() * counted).sum((-1, -2, -3)) / counted.sum((-1, -2, -3))


def data(num_sequences, seed):
    generator = torch.Generator().manual_seed(seed)
    seen = torch.randn(num_sequences, 5, 3, generator=generator)
    truth = seen @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.1 * torch.randn(num_sequences, 5, 1, generator=generator)
    return SequenceBatch(truth, seen)


def train(batch, runs=2, epochs=5):
    torch.manual_seed(0)
    filter = stack_runs([Linear(3, 1) for _ in range(runs)])
    stage = Stage("squares", squares, {"": 0.05}, epochs, Cosine(), batch=batch)
    return fit(filter, stage, data(24, 0), data(8, 1), num_runs=runs, seed=0)


def share_the_work(rank, folder, batch, runs):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    found = train(batch, runs)
    torch.save({"values": found.values, "train": [epoch["train"] for epoch in found.history]}, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def together(folder, batch, runs=2):
    multiprocessing.start_processes(share_the_work, (folder, batch, runs), nprocs=2, start_method="fork")
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_full_batches_give_what_one_process_gives(tmp_path):
    first, second = together(tmp_path, 12)
    alone = train(24)
    torch.testing.assert_close(first["values"], alone.values, rtol=1e-5, atol=1e-6)
    assert torch.equal(first["values"], second["values"])
    expected = [epoch["train"] for epoch in alone.history]
    torch.testing.assert_close(torch.tensor(first["train"]), torch.tensor(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.statistical
def test_small_batches_have_the_losses_of_doubled_ones(tmp_path):
    runs = 400
    first, _ = together(tmp_path, 3, runs)
    shared = torch.tensor(first["train"], dtype=torch.float64)
    alone = torch.tensor([epoch["train"] for epoch in train(6, runs).history], dtype=torch.float64)
    # Runs start alike in both, so that the difference of each counts.
    difference = shared - alone
    error = difference.std(-1) / math.sqrt(runs)
    assert bool((error < 0.02 * alone.mean(-1)).all())
    assert bool((difference.mean(-1).abs() < 5 * error).all())


def test_one_process_alone_shares_nothing():
    batch = data(5, 0)
    assert processes.share(batch) is batch
    assert processes.world() == 1
    with processes.joined("cpu") as device:
        assert device == "cpu"
        assert not torch.distributed.is_initialized()


@pytest.mark.slow
def test_torchrun_trains_on_a_file(tmp_path):
    kills.record(tmp_path / "walk.npz")
    program = (
        "from mdpf.recipes import logs; from mdpf import cli; logs.UPDATES['quick'] = logs.Updates(2, 2, 2); "
        "cli.main(['train', 'walk.npz', 'TG-PF', '--preset', 'quick', '--particles', '4', '--width', '4', '--out', 'run'])"
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    words = ["--standalone", "--nproc-per-node", "2", "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.count("Wrote run/TG-PF.json.") == 1
    assert math.isfinite(results.load(tmp_path / "run" / "TG-PF.json").metric("nll")[0])
