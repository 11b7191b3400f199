"""The agent's local socket: questions of this host's users and their answers, checked at both ends."""
