"""FedSub with a federated gate, the server half."""
