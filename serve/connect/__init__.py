"""Connections: the entries of `mnemolog connect` in the settings of agent hosts."""
