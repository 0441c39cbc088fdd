"""Record formats 0, 1 and 2: bytes to Arrow and back, hashes of keys, and the classic message types."""
