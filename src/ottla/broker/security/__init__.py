"""Who a client is, and what it may do: TLS, SASL, users, ACLs."""
