"""What is decided: subjects, cells, occurrences, the ladder, budgets, incidents. Pure.

`advance(cells, delivery, rulebook)` is the whole surface, with a codec for cells. Guarantees: no clock, no I/O, no randomness; a message
with an origin that was had already changes nothing; at most one open incident a run; from every state silence alone leads to an end.
"""

from recovery.advance import advance
from recovery.codec import decode_cell, encode_cell
from recovery.interface import NOTHING, Advance, Cell, Cells, Delivery, Emit

__all__ = ["NOTHING", "Advance", "Cell", "Cells", "Delivery", "Emit", "advance", "decode_cell", "encode_cell"]
