"""What clients and brokers share about security: key stores, JAAS texts, SCRAM's formulas, tokens."""
