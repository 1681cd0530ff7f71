"""`stoker export`: what a cluster holds, written once to a folder or a repository."""
