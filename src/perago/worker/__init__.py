"""The processes of a worker: one supervisor that talks to Conductor, and the executors that run attempts."""
