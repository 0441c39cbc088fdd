"""The data directory: topics, partitions and leaders, changes of them, and the turn that writes appends."""
