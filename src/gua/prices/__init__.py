"""Prices of GPU time: parsing, checks, storage and listing."""
