"""Stands in for AIPerf in bench.sh: has its own code accept the arguments and the trace, and sends nothing.

Exit status 0 means that AIPerf 0.13.0 would have begun to send requests.
"""

import json
import sys

from aiperf.cli import app
from aiperf.config.flags.resolver import resolve_config
from aiperf.config.loader import build_benchmark_plan
from aiperf.dataset.generator import prompt
from aiperf.dataset.loader.models import MooncakeTrace

_, bound, *_ = app.parse_args(sys.argv[1:], exit_on_error=False)
plan = build_benchmark_plan(resolve_config(bound.arguments["cli_config"], None))
config = plan.configs[0]
dataset = config.get_default_dataset()
phase = config.phases[-1]


class AnyDraw:
    def reseed_for_hash_id(self, hash_id):
        pass


rows = 0
path = getattr(dataset, "path", None)
if path is not None:
    # The part of AIPerf that makes prompts of hash_ids, with texts of zeros, since real ones need a tokenizer.
    prompt.sample_tokens_from_corpus = lambda corpus, tokens, *_: [0] * tokens
    prompt.PromptGenerator._sample_tokens = lambda self, tokens: [0] * tokens
    generator = object.__new__(prompt.PromptGenerator)
    generator._cache = {}
    generator._hash_id_corpus_rng = AnyDraw()
    generator._tokenized_corpus = []
    generator.tokenizer = type("NoTokenizer", (), {"block_separation_token_id": None})()
    with open(path) as lines:
        for line in lines:
            row = MooncakeTrace.model_validate(json.loads(line))
            tokens = generator._build_token_sequence(row.input_length, row.hash_ids, dataset.block_size)
            assert len(tokens) == row.input_length, line
            rows += 1
    assert rows == phase.requests, (rows, phase.requests)

print(json.dumps({"phase": str(phase.type), "requests": phase.requests, "rows": rows}))
