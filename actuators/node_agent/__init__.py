"""What the node agent carries out on its node: the repair of chips, by the operator's own command."""
