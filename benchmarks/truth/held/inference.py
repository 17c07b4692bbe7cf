"""Answers of models for many prompts, and their examinations."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "lm-eval",
    field="evaluation of models",
    source="https://github.com/EleutherAI/lm-evaluation-harness/issues",
    chatter=("2026-02-03:{clock},211 INFO     [telemetry.py:12] event {n} sent",),
    chatter_every=60.0,
)
def lm_eval(life: Life) -> Iterator[Event]:
    """Contexts are built in fast bars, then three bars over requests, each from slow to fast since the longest come first."""
    yield Phase.START
    yield "2026-02-03:10:00:01,101 INFO     [__main__.py:279] Verbosity set to INFO\n"
    yield life.about(25)
    yield Phase.PREPARE
    for shard in range(1, 9):
        yield f"\rLoading checkpoint shards: {shard * 100 // 8:3}%|{'█' * shard:8}| {shard}/8 [00:{shard * 7:02}<00:20,  7.11s/it]"
        yield life.about(8)
    yield "\n"
    for task in ("mmlu_anatomy", "mmlu_law", "hellaswag", "gsm8k"):
        yield f"2026-02-03:10:02:11,101 INFO     [task.py:395] Building contexts for {task} on rank 0...\n"
        for part in range(0, 1001, 100):
            yield f"\r{part // 10:3}%|{'█' * (part // 100):10}| {part}/1000 [00:0{part // 200}<00:02, 412.11it/s]"
            yield life.about(0.9)
        yield "\n"
    for kind, count, pace in (
        ("loglikelihood", 40_168, 0.12),
        ("loglikelihood_rolling", 62, 40.0),
        ("generate_until", 1319, 4.1),
    ):
        yield Phase.TRAIN
        yield f"2026-02-03:10:04:11,101 INFO     [evaluator.py:438] Running {kind} requests\n"
        yield life.about(60)
        step = max(count // 400, 1)
        for done in range(0, count, step):
            yield f"\rRunning {kind} requests: {done * 100 // count:3}%|{'█' * (done * 10 // count):10}| {done}/{count} [{done * pace // 60:02.0f}:11<1:11:11,  {1 / pace:.2f}it/s]"
            yield life.about(pace * step * (1.6 - 1.2 * done / count), 0.2)
        yield f"\rRunning {kind} requests: 100%|{'█' * 10}| {count}/{count} [1:11:11<00:00,  {1 / pace:.2f}it/s]\n"
    yield Phase.AFTER
    yield "bootstrapping for stddev: perplexity\n"
    yield life.about(400)
    yield "|  Tasks  |Version|Filter|n-shot|Metric|Value |\n|---------|------:|------|-----:|------|-----:|\n|gsm8k    |      3|strict|     5|exact |0.4112|\n"
    yield life.about(20)


@form(
    "vllm-batch",
    field="inference",
    source="https://github.com/vllm-project/vllm/pull/8060 and /issues/9695",
    chatter=(
        "INFO 02-03 {clock} metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 211 reqs, Swapped: 0 reqs, Pending: 812 reqs, GPU KV cache usage: 91.2%.",
    ),
    chatter_every=10.0,
    death="ERROR 02-03 12:00:00 engine.py:159] RuntimeError('CUDA error: an illegal memory access was encountered')\n",
)
def vllm(life: Life) -> Iterator[Event]:
    """Twelve files of prompts, a bar for each that stands at first; the engine's throughput beside it each ten seconds."""
    yield Phase.START
    yield "INFO 02-03 10:00:11 __init__.py:207] Automatically detected platform cuda.\n"
    yield life.about(35)
    yield Phase.PREPARE
    yield "INFO 02-03 10:00:46 model_runner.py:1110] Starting to load model /models/70b...\n"
    for shard in range(31):
        yield f"\rLoading safetensors checkpoint shards: {shard * 100 // 30:3}% Completed | {shard}/30 [00:{shard:02}<00:30,  1.01s/it]"
        yield life.about(6)
    yield "\nINFO 02-03 10:04:46 model_runner.py:1434] Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static.\n"
    for shape in range(36):
        yield f"\rCapturing CUDA graph shapes: {shape * 100 // 35:3}%|{'█' * (shape // 4):9}| {shape}/35 [00:{shape:02}<00:20,  1.01it/s]"
        yield life.about(1)
    yield "\n"
    for file in range(12):
        yield f"file {file + 1} of 12: prompts_{file:02}.jsonl\n"
        yield Phase.PREPARE
        yield life.about(45)
        yield Phase.TRAIN
        done, generated = 0, 0
        while done < 2000:
            yield life.about(10, 0.02)
            generated += int(life.about(31_000))
            yield f"INFO 02-03 10:3{file % 10}:46 metrics.py:455] Avg prompt throughput: {life.about(3100):.1f} tokens/s, Avg generation throughput: {life.about(3100, 0.05):.1f} tokens/s, Running: {int(life.about(200))} reqs, Swapped: 0 reqs, Pending: {max(1800 - done, 0)} reqs, GPU KV cache usage: {life.about(91, 0.03):.1f}%.\n"
            if generated > 260_000:
                done += int(life.about(27, 0.4))
                yield f"\rProcessed prompts: {done * 100 // 2000:3}%|{'█' * (done // 200):10}| {done}/2000 [{done // 60:02}:{done % 60:02}<10:11,  3.11it/s, est. speed input: 3121.11 toks/s, output: 3011.11 toks/s]"
        yield "\n"
        yield Phase.SAVE
        yield f"writing answers_{file:02}.jsonl\n"
        yield life.about(20)


@form(
    "whisper-folder",
    field="speech",
    source="https://github.com/openai/whisper/discussions and https://github.com/m-bain/whisperX/issues",
    chatter=("{clock} nas: 11 ms",),
    chatter_every=30.0,
)
def whisper(life: Life) -> Iterator[Event]:
    """Times within a recording that fall back with the next one, words of people, silences of what nobody says."""
    yield Phase.START
    yield "Detecting language using up to the first 30 seconds. Use `--language` to specify the language\n"
    yield life.about(50)
    yield Phase.TRAIN
    words = (
        "so the first thing",
        "we have to talk about",
        "you know",
        "in the second half of the year",
        "and that was it",
        "thank you all",
    )
    for recording in range(1, 61):
        yield f"talk_{recording:03}.mp3\nDetected language: English\n"
        yield life.about(9)
        at = 0.0
        for _ in range(life.random.randrange(40, 130)):
            yield life.about(2.4, 0.4)
            length = life.random.uniform(1, 9)
            end = at + length
            yield f"[{int(at) // 60:02}:{at % 60:06.3f} --> {int(end) // 60:02}:{end % 60:06.3f}]  {life.random.choice(words)}\n"
            at = end
