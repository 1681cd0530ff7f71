"""The command line: a room for each errand, one file per verb, each loaded only when it is called."""
