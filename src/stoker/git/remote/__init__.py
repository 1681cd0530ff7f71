"""The source seen from here: what a ref means now, and bringing what is missing in few words."""
