"""``python -m gua``: the same as ``gua``."""

from gua.cli.main import run

if __name__ == "__main__":
    run()
