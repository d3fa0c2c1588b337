"""Every message and record of relight, once.

What crosses a process border is defined here and nowhere else: identities, the CloudEvents envelope, signals, commands and
outcomes, orders, decisions, and the catalogue of topics. Guarantees: a decoded event is fully validated and immutable; encoding is
deterministic (same event, same bytes); an unknown type or a value outside its domain is an error that names the place.
This room imports no other room.
"""
