"""The papers' tables and figures: published values, measured scores beside them, and their rendering."""
