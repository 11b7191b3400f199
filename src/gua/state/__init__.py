"""Files on disk: the state directory, locks, the enrollment, and the compression of ticks."""
