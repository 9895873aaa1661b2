"""Access to a cluster: address and credentials from kubeconfig files or from the service account of the
pod."""
