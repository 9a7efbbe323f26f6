"""FedSub, the server half: cache, imputation, clustering, fusion."""
