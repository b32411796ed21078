"""Language models and other encoders as they come, and how texts become vectors. Knows nothing of training or tasks."""
