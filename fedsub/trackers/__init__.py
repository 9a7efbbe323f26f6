"""A run's numbers in viewers of others: TensorBoard, MLflow.

Read from the run's databases, so that simulated and deployed runs and those of studies are all the
same, and training waits for nobody's server. Only means over people leave them, and no names; but
the mean of a class that one person alone has is that person's.
"""
