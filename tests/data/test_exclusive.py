"""Several processes that read a file and write it again, and one that died while it had it."""

import json
import os
import subprocess
import sys
import time

from mdpf.data.atomic import exclusive

ADD = """
import json, sys
from pathlib import Path
from mdpf.data.atomic import exclusive
path = Path(sys.argv[1])
for _ in range(40):
    with exclusive(path):
        path.write_text(json.dumps(json.loads(path.read_text()) + 1))
"""


def test_nothing_is_lost_where_several_processes_write(tmp_path):
    path = tmp_path / "count.json"
    path.write_text("0")
    # Children find the package where this process found it.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    crew = [subprocess.Popen([sys.executable, "-c", ADD, str(path)], env=environment) for _ in range(3)]
    assert [member.wait() for member in crew] == [0, 0, 0]
    assert json.loads(path.read_text()) == 120
    assert [file.name for file in tmp_path.iterdir()] == ["count.json"]


def test_what_a_dead_process_left_is_taken_away(tmp_path):
    guard = tmp_path / ".count.json.guard"
    guard.touch()
    os.utime(guard, (time.time() - 100, time.time() - 100))
    with exclusive(tmp_path / "count.json"):
        assert guard.exists()
    assert not guard.exists()
