"""A real control plane: started, asked as different users, with the chart installed; what it was asked."""
