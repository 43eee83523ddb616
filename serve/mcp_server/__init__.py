"""The MCP endpoint: the memory as tools, resources and prompts of an agent host."""
