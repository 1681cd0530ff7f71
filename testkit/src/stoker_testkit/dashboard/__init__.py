"""A dashboard server over a made-up fleet, accounts with the chart's roles, and Chromium."""
