"""The eyes: sources of the node agent, one file each, and the publisher for other systems."""
