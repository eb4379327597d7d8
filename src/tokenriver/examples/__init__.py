"""record -> rows of ids and loss_mask, one kind of example a file."""
