"""What every room stands on: errors, hooks, specs, identity, files. Knows no other room, no model, no data set."""
