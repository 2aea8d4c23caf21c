"""Text to ids and back: tokenizers, chat templates, stop texts, thoughts. This room knows no model."""
