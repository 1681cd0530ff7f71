"""The eight kinds; what they share is in `stoker.api.spec`."""
