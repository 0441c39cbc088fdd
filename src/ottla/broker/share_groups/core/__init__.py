"""The pure part of share groups: members, which member holds which record, and what is stored."""
