"""What lies on disk: the state directory, its locks and files, the enrollment, the one compression of ticks."""
