"""What every layer uses: errors, error codes, offsets, settings tables. Imports nothing else of ottla."""
