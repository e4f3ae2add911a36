#!/usr/bin/env python3
"""Writes gpt2_tiny.bin: a tiny GPT-2 of Hugging Face's, one batch, and what PyTorch makes of them.

    python3 -m venv venv && venv/bin/pip install torch transformers numpy
    venv/bin/python tests/golden/make_gpt2.py tests/golden/gpt2_tiny.bin

The file, little-endian: 8 bytes "SCGOLD1\\0"; seven int32: n_layer, n_head, n_embd, vocab_size,
n_positions, B, T; then records to the end: uint32 length of the name, the name, uint32 number of
elements, and the elements, float32, or int32 for "tokens" and "targets". Records: tokens, targets
(-100: ignored), logits of the first step, losses and gradient norms of all steps, and for each
parameter w/NAME, grad/NAME (first step) and after/NAME (weights after the steps).

Weights are float32, everything is computed in float64, so the file is the truth and not another
rounding of it. Adam's epsilon is 1e-4: the gradient of the key bias is zero by mathematics and
1e-8 of rounding noise in fp32, which a smaller epsilon would magnify into the update.
"""

import struct
import sys

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

B, T, STEPS = 2, 11, 3
LR, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.95), 1e-4, 0.1


def make_model():
    config = GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=53, n_positions=13,
        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        attn_implementation="eager")
    model = GPT2LMHeadModel(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32)
            is_gain = ".ln_" in name and name.endswith(".weight")
            p.copy_(noise * (0.3 if p.dim() == 2 else 0.1) + (1.0 if is_gain else 0.0))
    return model.double(), config


def make_batch(vocab_size):
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(vocab_size, (B, T), generator=generator)
    targets = torch.randint(vocab_size, (B, T), generator=generator)
    targets[0, 4] = targets[1, 0] = targets[1, T - 1] = -100
    return tokens, targets


def record(out, name, values, dtype="<f4"):
    data = numpy.ascontiguousarray(numpy.asarray(values).reshape(-1).astype(dtype))
    text = name.encode()
    out.write(struct.pack("<I", len(text)) + text + struct.pack("<I", data.size) + data.tobytes())


def numpy_of(parameters):
    return {name: p.detach().numpy().copy() for name, p in parameters}


def main():
    model, config = make_model()
    tokens, targets = make_batch(config.vocab_size)
    named = list(model.named_parameters())
    matrices = [p for _, p in named if p.dim() == 2]
    vectors = [p for _, p in named if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=LR, betas=BETAS, eps=EPSILON)
    before = numpy_of(named)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=tokens).logits
        loss = torch.nn.functional.cross_entropy(
            logits.view(-1, config.vocab_size), targets.view(-1), ignore_index=-100)
        loss.backward()
        if step == 0:
            first_logits = logits.detach().numpy().copy()
            grads = {name: p.grad.numpy().copy() for name, p in named}
        losses.append(loss.item())
        norms.append(sum(float((p.grad ** 2).sum()) for _, p in named) ** 0.5)
        optimizer.step()
    after = numpy_of(named)

    with open(sys.argv[1], "wb") as out:
        out.write(b"SCGOLD1\0")
        out.write(struct.pack("<7i", config.n_layer, config.n_head, config.n_embd,
                              config.vocab_size, config.n_positions, B, T))
        record(out, "tokens", tokens, "<i4")
        record(out, "targets", targets, "<i4")
        record(out, "logits", first_logits)
        record(out, "losses", losses)
        record(out, "norms", norms)
        for name, _ in named:
            record(out, "w/" + name, before[name])
            record(out, "grad/" + name, grads[name])
            record(out, "after/" + name, after[name])


if __name__ == "__main__":
    main()
