"""Real servers and honest doubles, shipped for tests of every kind and for the demo.

A control plane (`cluster`) and the programs it consists of (`assets`), pods without a
node (`kubelet`), git servers and what they serve (`repositories`), forges, object
stores and other `services`, a `gateway` with the nasty sides of a real one, what goes
wrong (`faults`), and whole scenes of these (`sites`, `reverser`). Beside the rooms lies
what all of them need: processes, clocks, locks, waiting. Nothing in the product imports
from here but the command line.
"""
