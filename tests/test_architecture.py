"""What holds for the library as a whole: importing it is silent and harmless, rooms import downwards, everything is described."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import mdpf

ROOT = Path(__file__).parents[1]
MODULES = ["mdpf", *(module.name for module in pkgutil.walk_packages(mdpf.__path__, "mdpf."))]
PATH = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); "

IMPORT_AND_COMPARE = """import torch, sys, warnings
warnings.simplefilter("error")

def state():
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "random stream": torch.get_rng_state().tolist(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "argument validation": torch.distributions.Distribution._validate_args,
        "print options": repr(torch._tensor_str.PRINT_OPTS),
    }

before = state()
for name in sys.argv[1:]:
    __import__(name)
after = state()
changed = [name for name in before if before[name] != after[name]]
sys.exit(f"importing changed {changed}" if changed else 0)
"""


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_importing_everything_changes_nothing_and_prints_nothing():
    modules = [name for name in MODULES if not name.endswith("__main__")]
    result = run(sys.executable, "-c", PATH + IMPORT_AND_COMPARE, *modules)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert result.stderr == ""


def test_rooms_import_only_what_lies_below_them():
    result = run(sys.executable, "-c", PATH + "from importlinter.cli import lint_imports; sys.exit(lint_imports())")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", MODULES)
def test_module_says_what_it_is(name):
    documentation = importlib.import_module(name).__doc__
    assert documentation, f"{name} needs a docstring"
    assert documentation.strip().splitlines()[0].endswith((".", "?", ":"))


@pytest.mark.parametrize("name", MODULES)
def test_declared_names_exist(name):
    module = importlib.import_module(name)
    missing = [public for public in getattr(module, "__all__", []) if not hasattr(module, public)]
    assert not missing


def test_version_is_that_of_the_distribution():
    assert mdpf.__version__.count(".") == 2
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'version = { attr = "mdpf.__version__" }' in text
