"""The command line: one package per group of verbs, one module per verb, each imported only when it runs."""
