"""What comes out of the cluster: kinds that are served, objects that people wrote, lists and watches."""
