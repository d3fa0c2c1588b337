"""What is decided: one pure function over small cells of subjects. No clock, no I/O, no randomness."""
