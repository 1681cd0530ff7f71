"""Programs that tests run but no package ships: found, downloaded or built, and kept in a cache."""
