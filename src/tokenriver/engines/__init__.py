"""Where batches are computed: this process, a pool of worker processes."""
