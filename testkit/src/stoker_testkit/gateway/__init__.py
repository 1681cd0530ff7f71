"""The test gateway: an Ignition gateway over a data folder with scans, locks, restarts, redundancy."""
