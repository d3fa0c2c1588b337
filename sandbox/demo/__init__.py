"""The demo: relight whole on one machine, a training job, and three faults of it, watched and checked.

Who reads it begins with `acts` (what is done and what must come of it), then `performance` (the order of everything). `world` is what it plays
in, `watching` and `screen` show it, `seen` and `recorded` collect what the world and the record say, `checks` compares the two.
"""
