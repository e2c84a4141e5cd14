"""The command line: the one place where words choose code.

Exit codes: 0 done, 1 failed, 2 the call was wrong. Errors are one message on stderr; ``--debug`` shows the traceback.
"""

from mdpf.cli import bench, data, demo, diagnose, lists, report, reproduce, sweep, train, using
from mdpf.cli.app import main

__all__ = ["bench", "data", "demo", "diagnose", "lists", "main", "report", "reproduce", "sweep", "train", "using"]
