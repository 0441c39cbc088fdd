"""One module an API key: what the broker does when it is called. See `ottla.broker.serving`."""
