"""The documentation, and what makes the pages of it that the program itself can tell."""
