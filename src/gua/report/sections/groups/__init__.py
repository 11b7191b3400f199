"""Cards added up by host, cluster, model or label."""
