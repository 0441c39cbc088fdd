"""Programs that show ottla at work; `make demo` runs the one in demo/."""
