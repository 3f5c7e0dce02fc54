"""Random sessions that two databases must answer alike: the statements of a seed, the sides that run them, the
shrinking of what differs. `python -m twin --help`, with tests/support and tests/e2e on PYTHONPATH."""
