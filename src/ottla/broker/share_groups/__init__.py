"""Share groups (KIP-932): members share the records of a partition, and acknowledge each of them."""
