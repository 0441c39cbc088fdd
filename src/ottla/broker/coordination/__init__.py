"""What the coordinators share: of groups, transactions and share groups, each with a topic of its own."""
