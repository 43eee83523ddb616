"""The server as a process: started, told to end, the tenants it holds open, the jobs it starts."""
