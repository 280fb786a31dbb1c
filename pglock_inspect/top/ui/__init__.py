"""The half of ``top`` that draws, with Textual."""
