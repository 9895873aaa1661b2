"""How to reach a cluster and prove who we are: kubeconfig files, or the service account of our pod."""
