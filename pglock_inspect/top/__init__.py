"""The live terminal view.

This package is its headless half: which locks are shown, in which order and words, as plain functions of a
``Report``. It cannot import Textual; ``ui`` can, and draws.
"""
