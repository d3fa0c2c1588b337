"""Every message and record relight exchanges, defined once; imports no other room."""
