"""What ``gua doctor`` looks at, one subject a file. Nothing here changes or creates anything."""
