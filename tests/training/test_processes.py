"""One training shared by two processes: in full batches exactly, in small ones in distribution, what one process does."""

import math
import os
import socket
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
from mdpf.training.processes import Place
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


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SRUN = {
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[007-008,12]",
    "SLURM_JOB_ID": "1234567",
}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Place()),
        (TORCHRUN, Place(8, 3, 1, "10.0.0.1", 29500)),
        ({**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"}, Place()),
        (SRUN, Place(8, 3, 1, "gpu007", 20_000 + 1234567 % 20_000)),
        ({**SRUN, "SLURM_STEP_NODELIST": "login,gpu1"}, Place(8, 3, 1, "login", 34567)),
        ({**SRUN, "SLURM_STEP_NODELIST": "a-b-1"}, Place(8, 3, 1, "a-b-1", 34567)),
        ({**SRUN, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}, Place(8, 3, 1, "10.0.0.1", 29500)),
        # torchrun started by srun on every machine: what is nearest counts.
        ({**SRUN, **TORCHRUN, "RANK": "5"}, Place(8, 5, 1, "10.0.0.1", 29500)),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, Place()),
        # The script of a job, in which no srun stands.
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}, Place()),
    ],
)
def test_place_is_read_from_what_started_the_process(environment, expected):
    assert processes.place(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**TORCHRUN, "RANK": "8"}, "needs RANK from 0 to 7, got 8. Start it with torchrun again"),
        ({**TORCHRUN, "RANK": "first"}, "needs a number in RANK, got 'first'. Start it with torchrun"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "needs MASTER_ADDR, got none from torchrun. Set it to the host of the first process"),
        ({**SRUN, "SLURM_STEP_NODELIST": ""}, "needs MASTER_ADDR, got none from srun"),
        ({**TORCHRUN, "MASTER_PORT": ""}, "needs a number in MASTER_PORT, got ''"),
    ],
)
def test_half_a_place_is_refused(environment, message):
    with pytest.raises(ValueError, match=message):
        processes.place(environment)


def torchrun(folder, environment):
    words = ["--standalone", "--nproc-per-node", "2", "program.py"]
    return [subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *words], cwd=folder, env=environment, **PIPES)]


def srun(folder, environment):
    """What SLURM does for a step of two tasks on one machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_ID": "1", "MASTER_PORT": port}
    tasks = [{**environment, **step, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)} for task in range(2)]
    return [subprocess.Popen([sys.executable, "program.py"], cwd=folder, env=task, **PIPES) for task in tasks]


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.mark.slow
@pytest.mark.parametrize("launch", [torchrun, srun])
def test_two_processes_train_on_a_file(launch, tmp_path):
    kills.record(tmp_path / "walk.npz")
    program = (
        "from mdpf.recipes import logs; from mdpf import cli; logs.UPDATES['quick'] = logs.Updates(2, 2, 2); "
        "cli.main(['train', 'walk.npz', 'TG-PF', '--preset', 'quick', '--particles', '4', '--width', '4', '--out', 'run'])"
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    started = launch(tmp_path, {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"})
    said = [process.communicate(timeout=300) for process in started]
    assert all(process.returncode == 0 for process in started), said
    assert sum(out.count("Wrote run/TG-PF.json.") for out, _ in said) == 1
    assert math.isfinite(results.load(tmp_path / "run" / "TG-PF.json").metric("nll")[0])
