"""Fixtures for real parts: a broker of their own, recorded data."""
