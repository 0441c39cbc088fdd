"""What all consumers share: chunks that are being handed out, and reading ranges of offsets to their ends."""
