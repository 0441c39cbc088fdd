"""The command line. Entry points only: nothing imports them."""
