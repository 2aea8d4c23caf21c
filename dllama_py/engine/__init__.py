"""Ids to ids: steps on all ranks and stages, sequences, the token loop, drafts, the sampler. It knows no text."""
