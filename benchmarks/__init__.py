"""What relight costs: each module measures one part and prints a table."""
