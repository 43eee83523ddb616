"""What agents do, as hooks and transcripts tell it: tools, command lines and what they are for."""
