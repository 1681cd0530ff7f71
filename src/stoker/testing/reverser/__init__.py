"""Everything around reversers under test: replicas, people, random histories and the verdict on them."""
