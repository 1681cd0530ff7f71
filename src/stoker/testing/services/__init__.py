"""Services of others: object stores, alert receivers, sops."""
