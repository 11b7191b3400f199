"""To whom cards are promised: readers of files, of Slurm, of Kubernetes, and what puts them together."""
