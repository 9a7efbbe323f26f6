"""FedSub with a federated gate, the device half."""
