"""Trains the SentencePiece model on the caption grammar and encodes with it."""

import argparse
import io
import pathlib
import random

import sentencepiece
import torch

import captions
import model

_VOCABULARY = 192
_CAPTIONS = 20000


def train(path: pathlib.Path, seed: int) -> None:
    """Writes spiece.model: byte pairs, case-folding, pad 0, unknown 1, end 2."""
    rng = random.Random(seed)
    triples = captions.all_triples()
    scenes = [captions.random_scene(rng, triples) for _ in range(_CAPTIONS)]
    text = [captions.random_caption(rng, scene) for scene in scenes]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=written,
        model_type="bpe", vocab_size=_VOCABULARY,
        normalization_rule_name="nmt_nfkc_cf", character_coverage=1.0,
        required_chars="abcdefghijklmnopqrstuvwxyz",
        pad_id=model.PAD_ID, unk_id=1, bos_id=-1, eos_id=model.EOS_ID,
        num_threads=1, minloglevel=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written.getvalue())


class Tokenizer:
    """Text to ids, the end token and padding, always model.TEXT_LENGTH long."""

    def __init__(self, path: pathlib.Path) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(
            model_file=str(path))

    @property
    def vocabulary(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, texts: list[str]) -> torch.Tensor:
        ids = torch.full((len(texts), model.TEXT_LENGTH), model.PAD_ID,
                         dtype=torch.int64)
        for row, pieces in zip(ids, self._processor.encode(texts)):
            pieces = pieces[:model.TEXT_LENGTH - 1] + [model.EOS_ID]
            row[:len(pieces)] = torch.tensor(pieces)
        return ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=pathlib.Path,
        default=pathlib.Path(__file__).parent / "package/tokenizer/spiece.model")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    train(args.output, args.seed)


if __name__ == "__main__":
    main()
