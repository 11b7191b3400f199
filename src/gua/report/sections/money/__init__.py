"""What the GPU time cost."""
