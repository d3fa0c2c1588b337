"""The command line, one file per group of commands, and the composition of processes."""
