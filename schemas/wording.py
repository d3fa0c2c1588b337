"""Numbers in sentences that people read: reasons, details, notes in the record. "1 pod", "2 pods", never "1 pods".

Here because every room writes such sentences into messages, and one place for them is enough. English needs no more than a word's plural and a
verb's: what is counted is always one of our own nouns. Pure, so that a decision replayed says the same words.
"""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number and its noun: `1 pod`, `2 pods`, `1,250 pods`; `plural` where it is not the noun with an s (`process`, `processes`)."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def agreeing(number: int, one: str, several: str) -> str:
    """The verb, or whatever else follows the number: `is` for one, `are` for none and for several."""
    return one if number == 1 else several
