"""`stoker export`: writes the selected objects of a cluster to a folder or a repository, once."""
