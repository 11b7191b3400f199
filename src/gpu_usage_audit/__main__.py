"""``python -m gpu_usage_audit``: the same as ``gua``."""

from gpu_usage_audit.cli.main import run

if __name__ == "__main__":
    run()
