"""Commands of the command line, one file each; `relight.cli` finds them by name."""
