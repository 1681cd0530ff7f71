"""What all verbs share: how they take options, show what came of them, and end."""
