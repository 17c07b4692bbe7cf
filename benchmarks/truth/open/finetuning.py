"""Fine-tuning and alignment of language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "hf-trainer",
    field="fine-tuning",
    source="https://github.com/huggingface/transformers (Trainer's own prints)",
    chatter=("Every 30s: nvidia-smi | {clock} | 81 GB | 100 %",),
    death='Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    "RuntimeError: The size of tensor a (512) must match the size of tensor b (511)\n",
    tells_loss=True,
)
def hf_trainer(life: Life) -> Iterator[Event]:
    """A bar that draws over itself, a dictionary each tenth step, evaluations with a bar of their own."""
    yield Phase.START
    yield "Downloading shards: 100%|██████████| 4/4 [00:00<00:00, 11.2it/s]\n"
    yield life.about(15)
    yield Phase.PREPARE
    for shard in range(5):
        yield f"\rLoading checkpoint shards: {shard * 25:3}%|{'█' * shard}| {shard}/4 [00:{shard * 9:02}<00:30]"
        yield life.about(9)
    for share in range(0, 101, 5):
        yield f"\rMap: {share:3}%|{'█' * (share // 10)}| {share * 520}/52000 [01:0{share % 10}<02:11, 310.1 examples/s]"
        yield life.about(12)
    yield "\n"
    for step in range(1, 1501):
        if step == 1:
            yield Phase.TRAIN
        yield life.about(6)
        yield f"\r{step // 15:3}%|█   | {step}/1500 [1:02:{step % 60:02}<3:11:07,  6.01s/it]"
        if step % 10 == 0:
            loss = life.loss(step / 1500, 3, 1.1)
            yield f"{{'loss': {loss:.4f}, 'grad_norm': 1.{step}, 'learning_rate': 1e-05, 'epoch': {step / 500:.2f}}}\n"
        if step % 250 == 0:
            yield Phase.EVALUATE
            for batch in range(0, 120, 4):
                yield life.about(8)
                yield f"\r{batch}%|█   | {batch}/120 [00:{batch % 60:02}<02:10,  1.02it/s]"
            yield f"{{'eval_loss': {life.loss(step / 1500, 3, 1.2):.4f}, 'eval_runtime': 241.1, 'epoch': {step / 500:.2f}}}\n"
            yield Phase.SAVE
            yield f"Saving model checkpoint to out/checkpoint-{step}\n"
            yield life.about(70)
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "{'train_runtime': 9811.2, 'train_loss': 1.31, 'epoch': 3.0}\n"
    yield life.about(500)
    yield "merged model written to out/merged\n"


@form(
    "trl-grpo",
    field="reinforcement learning from rewards",
    source="https://github.com/huggingface/open-r1/issues",
    chatter=("INFO {clock} vLLM engine: Avg prompt throughput: 0.0 tokens/s, running: 0 reqs",),
)
def trl_grpo(life: Life) -> Iterator[Event]:
    """A loss that begins at 0 and rises with the KL term; steps grow longer as answers do."""
    yield Phase.START
    yield life.about(30)
    yield Phase.PREPARE
    for share in range(0, 101, 10):
        yield f"\rLoading safetensors checkpoint shards: {share}% Completed | {share // 25}/4 [00:{share:02}<00:03]"
        yield life.about(25)
    yield "\nINFO 02-03 10:12:11 model_runner.py:1518] Graph capturing finished in 21 secs\n"
    yield life.about(240)
    yield Phase.TRAIN
    for step in range(1, 201):
        yield life.about(50 + step * 0.4)
        loss, reward = abs(life.random.gauss(step * 4e-5, 1e-4)), life.random.gauss(0.2 + step / 300, 0.1)
        length = life.random.gauss(400 + step * 4, 60)
        yield (
            f"{{'loss': {loss:.4f}, 'grad_norm': 0.21, 'completion_length': {length:.1f}, 'rewards/accuracy_reward': "
            f"{reward:.3f}, 'kl': {step * 1e-4:.5f}, 'epoch': {step / 900:.2f}}}\n"
        )
        if step % 50 == 0:
            yield Phase.SAVE
            yield f"[INFO|trainer.py:3942] >> Saving model checkpoint to data/run/checkpoint-{step}\n"
            yield life.about(150)
            yield Phase.TRAIN


@form(
    "llama-factory-packed",
    field="fine-tuning",
    source="https://github.com/hiyouga/LLaMA-Factory/issues",
    chatter=("[{clock}] alive {n}",),
    chatter_every=60.0,
    tells_loss=True,
)
def llama_factory(life: Life) -> Iterator[Event]:
    """Two quiet hours of tokenising by many workers with a bar each half minute, then steps of 40 s."""
    yield Phase.START
    yield "[INFO|2026-02-03 10:00:00] llamafactory.hparams.parser:143 >> Process rank: 0, world size: 8\n"
    yield life.about(40)
    yield Phase.PREPARE
    for done in range(0, 2_000_001, 12_500):
        yield (
            f"\rRunning tokenizer on dataset (num_proc=16): {done // 20_000}%|█ | {done}/2000000 "
            f"[{done // 30_000}:11<1:02:10, 512.30 examples/s]"
        )
        yield life.about(30)
    yield "\n[INFO|trainer.py:2134] ***** Running training *****\n[INFO|trainer.py:2136]   Total optimization steps = 300\n"
    yield Phase.TRAIN
    for step in range(1, 301):
        yield life.about(40)
        loss = life.loss(step / 300, 2, 0.9)
        yield f"[INFO|callbacks.py:310] {{'loss': {loss:.4f}, 'learning_rate': 4.1e-05, 'epoch': {step / 100:.2f}}}\n"
    yield Phase.AFTER
    yield "[INFO|trainer.py:3801] Saving model checkpoint to saves/full\n"
    yield life.about(200)
