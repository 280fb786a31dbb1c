"""The command line: one module per command, and what they share. Only here are the parts wired together."""
