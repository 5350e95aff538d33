"""Any input at every public entry: each ends in a right answer or a clear error.

``pytest tests/fuzz`` tries a few examples of each, always the same; with
``--hypothesis-profile=long`` a hundred times as many, and others each time.
"""
