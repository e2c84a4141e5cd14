"""The code that a reader copies from the README and the documentation runs as printed."""

import re
import warnings
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = {
    str(page.relative_to(ROOT)): blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "_build" not in page.parts and (blocks := BLOCK.findall(page.read_text(encoding="utf-8")))
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


def test_blocks_are_found():
    assert BLOCK.findall("text\n```python\na = 1\nb = 2\n```\n```bash\nls\n```\n") == ["a = 1\nb = 2\n"]
