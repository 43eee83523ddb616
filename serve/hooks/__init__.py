"""The events that agent hosts report, and the context we give their models in return.

Adapters (`hosts/`) turn a host's payload into one `HookEvent` and our `Reply` into the host's own
JSON; all between is the same for every host.
"""
