"""Unix socket between the agent and users of its host: requests and responses, validated at both ends."""
