"""The pages: one module for each part of the console, each with its `ROUTES`."""
