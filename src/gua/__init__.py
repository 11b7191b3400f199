"""gua: where a lab's GPU hours go."""
