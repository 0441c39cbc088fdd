"""Slow, obviously right versions of the hot loops: what the fast ones are compared with."""
