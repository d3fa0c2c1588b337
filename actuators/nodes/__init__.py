"""Steps whose effect is on nodes: repair orders, and the mirror of a node's holds."""
