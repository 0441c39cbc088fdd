"""One file per API: its fields in all versions. `ottla.wire.registry` finds the files by itself."""
