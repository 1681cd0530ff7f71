"""`stoker doctor` for a gateway: checks of address, API key and permissions, with advice."""
