"""The code that a reader copies from the README and the documentation runs as printed."""

import re
import shlex
import warnings
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Pages whose commands build on each other and on the code between them; both are run, in order.
STORIES = ("docs/own_logs.md", "docs/on_a_robot.md")
PAGES = {
    str(page.relative_to(ROOT)): blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "_build" not in page.parts
    and str(page.relative_to(ROOT)) not in STORIES
    and (blocks := BLOCK.findall(page.read_text(encoding="utf-8")))
}


@pytest.mark.examples
@pytest.mark.parametrize("page", PAGES)
def test_python_of_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, block in enumerate(PAGES[page], start=1):
            exec(compile(block, f"{page}, block {number}", "exec"), names)


@pytest.mark.examples
@pytest.mark.parametrize("page", STORIES)
def test_code_and_commands_of_page_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    from mdpf import cli
    from mdpf.recipes import logs

    monkeypatch.chdir(tmp_path)
    # The commands are those of the page; how often the optimiser steps is not.
    monkeypatch.setitem(logs.UPDATES, "quick", logs.Updates(2, 2, 2))
    names = {"__name__": "__main__"}
    blocks = ANY_BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} == {"python", "bash"}
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, (kind, block) in enumerate(blocks, start=1):
            if kind == "python":
                exec(compile(block, f"{page}, block {number}", "exec"), names)
                continue
            for line in block.strip().splitlines():
                program, *words = shlex.split(line)
                assert program == "mdpf"
                cli.app.app(words, prog_name="mdpf", standalone_mode=False)


def test_blocks_are_found():
    assert BLOCK.findall("text\n```python\na = 1\nb = 2\n```\n```bash\nls\n```\n") == ["a = 1\nb = 2\n"]
