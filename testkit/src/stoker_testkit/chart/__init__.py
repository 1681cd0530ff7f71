"""The Helm chart in tests: installed by the real helm, its programs run as local processes."""
