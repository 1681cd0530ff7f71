"""The agent in a gateway's pod: its image, the injected containers and the Secrets that they mount."""
