"""The stream stages: a stateless router and the recovery stage with its state log."""
