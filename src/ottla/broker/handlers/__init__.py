"""What the broker does for each API key: one module a key, imported by `registry`.

Handlers see `ottla.broker.serving.handler.Inquiry` and the parts of the broker that it names, and nothing
above them. Each module's docstring says which versions it serves and how it behaves.
"""
