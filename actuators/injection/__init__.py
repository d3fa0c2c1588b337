"""Injection: a pure change of a manifest, and every reason why a manifest is left as it is."""
