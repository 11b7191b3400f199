"""Resolvers from process metadata to owner, container, pod, job and served model, one per module."""
