"""Allocation sources: readers of files, Slurm and Kubernetes, and their combination."""
