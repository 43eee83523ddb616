"""Home: settings, tenants, projects, tokens, files and errors; all that is not a log."""
