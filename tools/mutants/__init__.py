"""Mutation testing: changes one place of a module at a time and shows which changes no test notices."""
