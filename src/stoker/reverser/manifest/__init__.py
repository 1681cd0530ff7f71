"""An object as a file: what of it is kept, as which text, in which place, and what of a Secret."""
