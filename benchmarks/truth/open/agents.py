"""Reinforcement learning."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "cleanrl",
    field="reinforcement learning",
    source="https://github.com/vwxyzjn/cleanrl",
    chatter=("[{clock}] vector env: heartbeat",),
)
def cleanrl(life: Life) -> Iterator[Event]:
    """A line whenever an episode ends, at any moment of the clock, and the steps per second at each update."""
    yield Phase.START
    yield "A.L.E: Arcade Learning Environment (version 0.8.1+53f58b7)\n[Powered by Stella]\n"
    yield life.about(20)
    yield Phase.TRAIN
    steps = 0
    for _ in range(1400):
        for _ in range(life.random.randint(0, 6)):
            yield life.about(2, 0.5)
            steps += life.random.randint(100, 900)
            yield f"global_step={steps}, episodic_return={life.random.gauss(20 + steps / 40_000, 8):.1f}\n"
        yield life.about(4)
        steps += 64
        yield f"SPS: {life.about(480, 0.02):.0f}\n"


@form(
    "rllib-tune-table",
    field="reinforcement learning",
    source="https://github.com/ray-project/ray/tree/master/rllib",
    chatter=("(autoscaler +{seconds}s) Tip: use `ray status` to view detailed cluster status.",),
    chatter_every=120.0,
    death="(PPO pid=9211) ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n",
)
def rllib(life: Life) -> Iterator[Event]:
    """Tune's status table drawn anew every half minute, a row of numbers for the one trial, results as text below."""
    yield Phase.START
    yield "2026-03-11 08:00:01,001\tINFO worker.py:1724 -- Started a local Ray instance.\n"
    yield life.about(45)
    yield Phase.PREPARE
    yield "(PPO pid=9211) Install gputil for GPU system monitoring.\n"
    yield life.about(70)
    yield Phase.TRAIN
    seconds, iteration = 115.0, 0
    for tick in range(600):
        took = life.about(30, 0.03)
        seconds += took
        yield took
        iteration = int((seconds - 115) / 52)
        yield (
            f"== Status ==\nCurrent time: 2026-03-11 09:{tick // 2 % 60:02}:{tick % 2 * 30:02} (running for {int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{seconds % 60:05.2f})\n"
            "Using FIFO scheduling algorithm.\nLogical resource usage: 17.0/64 CPUs, 1.0/1 GPUs\nNumber of trials: 1/1 (1 RUNNING)\n"
            "+-------------------------+----------+-----------------+--------+------------------+---------+----------+\n"
            "| Trial name              | status   | loc             |   iter |   total time (s) |      ts |   reward |\n"
            "|-------------------------+----------+-----------------+--------+------------------+---------+----------|\n"
            f"| PPO_Walker_2f1c1_00000  | RUNNING  | 10.0.0.7:9211   | {iteration:6} | {iteration * 51.2:16.1f} | {iteration * 16000:7} | {life.random.gauss(iteration / 3, 4):8.2f} |\n"
            "+-------------------------+----------+-----------------+--------+------------------+---------+----------+\n\n"
        )


@form(
    "verl-console",
    field="reinforcement learning from rewards",
    source="https://github.com/volcengine/verl",
    chatter=("(WorkerDict pid=7721) {clock} sglang: 0 running requests, token usage 0.00",),
)
def verl(life: Life) -> Iterator[Event]:
    """One line of a hundred metrics each four minutes, a bar beside it, validation of half an hour each 20 steps."""
    yield Phase.START
    yield "2026-03-11 08:00:01,001\tINFO worker.py:1841 -- Started a local Ray instance.\n(TaskRunner pid=7001) {'actor_rollout_ref': {'actor': {'ppo_epochs': 1}}}\n"
    yield life.about(120)
    yield Phase.PREPARE
    for shard in range(1, 5):
        yield f"\r(WorkerDict pid=7721) Loading checkpoint shards: {shard * 25}%|{'█' * shard} | {shard}/4 [00:{shard * 11}<00:11]"
        yield life.about(11)
    yield "\n(TaskRunner pid=7001) Total training steps: 100\n"
    yield life.about(300)
    yield Phase.TRAIN
    for step in range(1, 101):
        yield life.about(240, 0.12)
        yield (
            f"(TaskRunner pid=7001) step:{step} - actor/entropy:{life.random.gauss(0.4, 0.02):.3f} - actor/kl_loss:{step * 2e-4:.5f} - actor/pg_loss:"
            f"{life.random.gauss(0, 0.01):.4f} - critic/score/mean:{life.random.gauss(0.1 + step / 200, 0.03):.3f} - response_length/mean:{400 + step * 6:.1f} - "
            f"timing_s/gen:{life.about(141):.2f} - timing_s/step:{life.about(240):.2f} - training/global_step:{step}\n"
        )
        yield f"\r(TaskRunner pid=7001) Training Progress: {step:3}%|{'█' * (step // 10)} | {step}/100 [{step // 15}:{step % 15 * 4:02}:01<3:01:11, 241.02s/it]"
        if step % 20 == 0:
            yield Phase.EVALUATE
            yield "\n(TaskRunner pid=7001) test_gen_batch meta info: {'do_sample': False, 'validate': True}\n"
            yield life.about(900)
            yield "(TaskRunner pid=7001) validation generation end\n"
            yield life.about(60)
            yield Phase.SAVE
            yield f"(WorkerDict pid=7721) [Rank 0] Saved model to checkpoints/global_step_{step}/actor\n"
            yield life.about(80)
            yield Phase.TRAIN
