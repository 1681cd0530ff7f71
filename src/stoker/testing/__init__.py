"""Real servers and honest doubles, shipped for tests of every kind and for the demo.

A control plane (`control_plane`), git servers (`git_http`, `git_ssh`) and the
repositories they serve, a gateway with the nasty sides of a real one (`gateway`),
networks that misbehave (`fault_proxy`, `http_fault_proxy`), a clock that is moved
by hand, and what these need. Nothing in the product imports from here but the
command line.
"""
