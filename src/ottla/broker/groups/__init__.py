"""Groups: the pure coordinator, and the service that carries out its decisions."""
