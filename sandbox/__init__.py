"""Real parts and stand-ins for demos, drills and tests; imported by no room."""
