"""What people write: the rule language, its loader and compiler, code tables and the default rulebook."""
