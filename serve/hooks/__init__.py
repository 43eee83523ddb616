"""What agent hosts tell us as they work, and what we put before the model in return.

Adapters (`hosts/`) turn a host's payload into one `HookEvent` and our `Reply` into the host's own
JSON; all between is the same for every host.
"""
