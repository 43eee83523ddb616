"""What jobs propose: plans of events, looked at before they are written, and taken back after."""
