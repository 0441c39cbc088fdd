"""From a socket to a handler: connections, the express lane, long polls, faults on demand."""
