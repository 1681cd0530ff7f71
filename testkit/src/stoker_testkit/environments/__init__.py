"""Complete setups for integration tests: an agent with its gateway, controllers, the whole operator."""
