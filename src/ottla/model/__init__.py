"""The vocabulary: ids, errors, protocol error codes. Frozen values; imports nothing of ottla."""
