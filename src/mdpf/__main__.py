"""``python -m mdpf``: the command line where the command itself is not on the path."""

from mdpf.cli import main

if __name__ == "__main__":
    main()
