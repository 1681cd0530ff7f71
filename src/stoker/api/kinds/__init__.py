"""The eight kinds that users write; the parts they share are in `stoker.api.spec`."""
