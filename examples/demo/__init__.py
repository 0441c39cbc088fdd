"""The whole story on one machine: see __main__."""
