"""Checks of ``gua doctor``, one subject a file. No check changes or creates anything."""
