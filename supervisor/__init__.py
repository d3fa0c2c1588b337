"""The entry process in other people's containers: standard library only, Python 3.8, one zipapp, and it fails open."""
