"""What `mnemolog connect` writes into the settings of agent hosts, and takes out again."""
