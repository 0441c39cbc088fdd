"""The pure part of share groups: who is a member, who holds which record, and what is stored of it."""
