"""Access to the NVIDIA driver through nvidia-ml-py; the only importer of pynvml."""
