"""The ground of every room: errors, hooks, specs, identity, files. Knows no other room, no model, no data set."""
