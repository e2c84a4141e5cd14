"""``python -m mdpf``: the command line where the command itself is not on the path."""

from mdpf.cli import main

main()
