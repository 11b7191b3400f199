"""From a process's facts to who owns it, one resolver a file."""
