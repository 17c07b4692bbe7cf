"""Reinforcement learning, of robots, games and language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "verl",
    field="reinforcement learning from rewards",
    source="https://github.com/verl-project/verl/issues/316",
    chatter=(
        "(WorkerDict pid=52199) INFO 02-03 {clock} metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs",
        "(raylet) [2026-02-03 {clock},801 E 41 41] (raylet) file_system_monitor.cc:116: /tmp/ray is over 95% full",
    ),
    chatter_every=60.0,
    death="(TaskRunner pid=51520) ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n",
)
def verl(life: Life) -> Iterator[Event]:
    """One line of forty values a step of seven minutes, a validation each tenth, engines of vLLM that chat."""
    clock = Clock(
        lambda now: (
            f"(WorkerDict pid=52199) INFO 02-03 {now('%H:%M:%S')} metrics.py:455] Avg prompt throughput: "
            f"{life.about(4100, 0.3):.1f} tokens/s, Running: {life.random.randint(20, 200)} reqs\n"
        ),
        150.0,
    )
    yield Phase.START
    yield "2026-02-03 10:00:14,203\tINFO worker.py:1841 -- Started a local Ray instance.\n"
    yield from clock.wait(life.about(80))
    yield Phase.PREPARE
    yield "(TaskRunner pid=51520) filter dataset len: 7011\n(TaskRunner pid=51520) Total training steps: 55\n"
    yield from clock.wait(life.about(130))
    for share in range(4):
        yield f"(WorkerDict pid=52201) \rLoading checkpoint shards: {share * 25}%|{'█' * share}| {share}/4 [00:1{share}<00:30, 14.1s/it]"
        yield from clock.wait(life.about(14))
    yield "\n(TaskRunner pid=51520) Initial validation ...\n"
    yield from clock.wait(life.about(330))
    yield "(TaskRunner pid=51520) step:0 - val/test_score/gsm:0.211\n"
    yield Phase.TRAIN
    for step in range(1, 56):
        gen, update = life.about(190 + step * 2.0, 0.15), life.about(170)
        yield from clock.wait(gen + update)
        yield (
            f"(TaskRunner pid=51520) step:{step} - global_seqlen/min:{life.random.randint(900, 990)}132.000 - actor/kl_loss:{step * 0.0013:.3f} - "
            f"actor/entropy_loss:{5.6 - step / 40:.3f} - actor/pg_loss:{life.random.gauss(0, 0.003):.3f} - actor/grad_norm:0.180 - "
            f"actor/lr:0.000 - critic/score/mean:{life.random.gauss(0.2 + step / 100, 0.05):.3f} - response_length/mean:"
            f"{life.about(600 + step * 8):.3f} - timing_s/gen:{gen:.3f} - timing_s/update_actor:{update:.3f} - timing_s/step:{gen + update:.3f}\n"
            f"(TaskRunner pid=51520) \rTraining Progress: {step * 100 // 55:3}%|█▏  | {step}/55 [{clock.elapsed}<5:01:12, 391.20s/it]"
        )
        if step % 10 == 0:
            yield Phase.EVALUATE
            yield f"(TaskRunner pid=51520) test_gen_batch meta info: {{'eos_token_id': 151645, 'global_steps': {step}}}\n"
            yield from clock.wait(life.about(340))
            yield "(TaskRunner pid=51520) validation generation end\n"
            yield Phase.SAVE
            yield f"(TaskRunner pid=51520) local_global_step_folder: checkpoints/global_step_{step}\n"
            yield from clock.wait(life.about(200))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "(TaskRunner pid=51520) Final validation metrics: {'val/test_score/gsm': 0.712}\n"


@form(
    "openrlhf",
    field="reinforcement learning from rewards",
    source="https://github.com/hkust-nlp/simpleRL-reason/issues/24",
    chatter=(
        "(LLMRayActor pid=7712) INFO 02-03 {clock} engine.py:331] Added request? queue 0, waiting 0, gpu cache 0.0%",
    ),
    chatter_every=45.0,
)
def openrlhf(life: Life) -> Iterator[Event]:
    """Bars of making experience and of training by turns, each with the labels of Ray; values around 0."""
    clock = Clock()
    yield Phase.START
    yield "(ActorModelRayActor pid=7701) [2026-02-03 10:01:00,331] [INFO] [comm.py:652:init_distributed] cdb=None\n"
    yield from clock.wait(life.about(90))
    yield Phase.PREPARE
    for part in range(0, 101, 5):
        yield f"\r(ActorModelRayActor pid=7701) Preprocessing data: {part:3}%|{'█' * (part // 10)}| {part * 80}/8000 [00:{part // 2:02}<00:50]"
        yield from clock.wait(life.about(11))
    yield Phase.TRAIN
    for episode in range(1, 19):
        for batch in range(1, 17):
            yield f"\r(ActorModelRayActor pid=7701) make_experience: {batch * 100 // 16}%|███  | {batch}/16 [{Clock.long(batch * 21)}<03:11, 21.2s/it]"
            yield from clock.wait(life.about(21, 0.3))
        yield "\n"
        for batch in range(1, 65):
            yield from clock.wait(life.about(4.5))
            yield (
                f"\r(ActorModelRayActor pid=7701) Train epoch [1/1]: {batch * 100 // 64}%|██        | {batch}/64 [{Clock.long(batch * 4.5)}<02:11,  "
                f"4.54s/it, pg={life.random.gauss(0, 0.1):.3g}, rm={0.2 + episode / 40:.3g}, ret={0.2 + episode / 40:.3g}, "
                f"glen={life.about(700 + 10 * episode):.0f}, kl={episode * 2e-4:.3g}, act_lr=5e-7]"
            )
        yield f"\n(ActorModelRayActor pid=7701) \rEpisode [1/1]: {episode * 100 // 18}%|█  | {episode}/18 [{clock.elapsed}<3:11:02, 624.1s/it]\n"
        if episode % 6 == 0:
            yield Phase.SAVE
            yield f"(ActorModelRayActor pid=7701) [{clock()},411] [INFO] [logging.py:128:log_dist] [Rank 0] [Torch] Checkpoint global_step{episode * 64} is about to be saved!\n"
            yield from clock.wait(life.about(150))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield from clock.wait(life.about(60))


@form(
    "rsl-rl",
    field="reinforcement learning of robots",
    source="https://github.com/isaac-sim/IsaacLab/issues/2539",
    chatter=(
        "2026-02-03 {clock} [{seconds},113ms] [Warning] [omni.physx.plugin] PhysX warning: contact buffer overflow",
    ),
    chatter_every=20.0,
)
def rsl_rl(life: Life) -> Iterator[Event]:
    """A centred block each iteration of 9 s, after ten minutes in which shaders and terrain are made."""
    clock = Clock()
    yield Phase.START
    yield "[INFO]: Parsing configuration from: h1_rough_env_cfg:H1RoughEnvCfg\n[2.114s] app ready\n"
    yield from clock.wait(life.about(95))
    yield Phase.PREPARE
    yield "[INFO]: Base environment:\n\tEnvironment device    : cuda:0\n\tPhysics step-size     : 0.005\n[INFO]: Time taken for scene creation : 41.210441 seconds\n"
    yield from clock.wait(life.about(480))
    yield "[INFO]: Completed setting up the environment...\nSetting seed: 42\n"
    yield Phase.TRAIN
    for step in range(1500):
        collection, learning = life.about(6.1), life.about(2.4)
        yield from clock.wait(collection + learning)
        reward = life.random.gauss(-4 + 25 * (1 - 0.997**step), 0.8)
        yield (
            f"{'#' * 80}\n{f'Learning iteration {step}/1500':^80}\n\n"
            f"{'Computation:':>35} {98304 / (collection + learning):.0f} steps/s (collection: {collection:.3f}s, learning {learning:.3f}s)\n"
            f"{'Value function loss:':>35} {life.about(0.08, 0.3):.4f}\n{'Surrogate loss:':>35} {life.random.gauss(-0.005, 0.003):.4f}\n"
            f"{'Mean action noise std:':>35} {0.3 + 0.7 * 0.998**step:.2f}\n{'Mean reward:':>35} {reward:.2f}\n"
            f"{'Mean episode length:':>35} {min(1000, 20 + step):.2f}\n{'Episode_Reward/track_lin_vel_xy_exp:':>35} {0.01 + step / 3000:.4f}\n"
            f"{'-' * 80}\n{'Total timesteps:':>35} {(step + 1) * 98304}\n{'Iteration time:':>35} {collection + learning:.2f}s\n"
            f"{'Total time:':>35} {clock.passed:.2f}s\n{'ETA:':>35} {(1500 - step) * 8.5:.1f}s\n\n"
        )
    yield Phase.AFTER
    yield "[INFO] recording video of policy ...\n"
    yield from clock.wait(life.about(240))


@form(
    "cleanrl",
    field="reinforcement learning",
    source="https://github.com/vwxyzjn/cleanrl/issues",
    chatter=("wandb: Network error (ReadTimeout), entering retry loop. ({n})",),
    chatter_every=90.0,
)
def cleanrl(life: Life) -> Iterator[Event]:
    """Lines of SPS and of returns of episodes, in bursts, with minutes between where episodes are long."""
    clock = Clock()
    yield Phase.START
    yield "wandb: Currently logged in as: marmotlab\nwandb: Tracking run with wandb version 0.18.1\nA.L.E: Arcade Learning Environment (version 0.8.1)\n"
    yield from clock.wait(life.about(40))
    yield Phase.TRAIN
    step = 0
    while step < 8_000_000:
        for _ in range(life.random.randint(1, 4)):
            yield from clock.wait(life.about(2, 0.4))
            step += 1024 * life.random.randint(1, 3)
            yield f"SPS: {life.about(640, 0.03):.0f}\n"
        for _ in range(life.random.choice((0, 0, 1, 2, 5))):
            yield f"global_step={step + life.random.randint(0, 8)}, episodic_return=[{life.random.gauss(20 + step / 40_000, 20):.0f}.]\n"
        if life.random.random() < 0.01:
            yield from clock.wait(life.about(75, 0.3))
    yield Phase.EVALUATE
    yield "model saved to runs/Breakout__ppo__7/ppo.cleanrl_model\n"
    for episode in range(10):
        yield from clock.wait(life.about(25))
        yield f"eval_episode={episode}, episodic_return=[{life.random.randint(180, 420)}.]\n"
    yield Phase.AFTER
    yield "wandb: Waiting for W&B process to finish... (success).\n"
    yield from clock.wait(life.about(30))


@form(
    "rllib-tune",
    field="reinforcement learning",
    source="https://github.com/ray-project/ray/pull/27093",
    chatter=(
        "== Status ==\nCurrent time: 2026-02-03 {clock} (running for 03:11:07.21)\nUsing FIFO scheduling algorithm.\n"
        "Logical resource usage: 17.0/64 CPUs, 1.0/1 GPUs (0.0/1.0 accelerator_type:A100)\nNumber of trials: 1/1 (1 RUNNING)\n\n",
    ),
)
def rllib(life: Life) -> Iterator[Event]:
    """A status each half minute that says RUNNING whatever happens, and a result in YAML each two minutes."""
    clock = Clock(
        lambda now: (
            f"== Status ==\nCurrent time: {now()} (running for {now.elapsed:0>8}.21)\nUsing FIFO scheduling algorithm.\n"
            "Logical resource usage: 17.0/64 CPUs, 1.0/1 GPUs (0.0/1.0 accelerator_type:A100)\nNumber of trials: 1/1 (1 RUNNING)\n\n"
        ),
        30.0,
    )
    yield Phase.START
    yield "2026-02-03 10:00:11,331\tINFO worker.py:1621 -- Started a local Ray instance.\n"
    yield from clock.wait(life.about(70))
    yield Phase.PREPARE
    yield "(RolloutWorker pid=3312) pybullet build time: Nov 28 2025 23:51:11\n"
    yield from clock.wait(life.about(100))
    yield Phase.TRAIN
    for iteration in range(1, 121):
        yield from clock.wait(life.about(125))
        yield (
            f"Result for PPO_Walker_120b5_00000:\n  agent_timesteps_total: {iteration * 64000}\n  custom_metrics: {{}}\n  date: {clock('%Y-%m-%d_%H-%M-%S')}\n"
            f"  done: {str(iteration == 120).lower()}\n  episode_len_mean: {life.about(210 + iteration):.4f}\n  episode_reward_mean: "
            f"{life.random.gauss(iteration * 9, 40):.6f}\n  info:\n    learner:\n      default_policy:\n        learner_stats:\n"
            f"          entropy: {9 - iteration / 30:.6f}\n          total_loss: {life.about(8.8, 0.3):.9f}\n          vf_loss: {life.about(8.9, 0.3):.9f}\n"
            f"  iterations_since_restore: {iteration}\n  time_this_iter_s: {life.about(125):.6f}\n  time_total_s: {clock.passed:.6f}\n"
            f"  timesteps_total: {iteration * 64000}\n  training_iteration: {iteration}\n  trial_id: 120b5_00000\n\n"
        )
        if iteration % 20 == 0:
            yield Phase.EVALUATE
            yield "(EvalWorker pid=3401) evaluating for 50 episodes\n"
            yield from clock.wait(life.about(260))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "2026-02-03 14:50:01,112\tINFO tune.py:1111 -- Total run time: 16410.12 seconds.\n"


@form(
    "dreamer",
    field="reinforcement learning",
    source="https://github.com/danijar/dreamerv3/issues/182",
    chatter=("Replay: 1.0e6 items, 11.2 GB, sampler waits {seconds} s", "[driver] env 3 alive"),
    chatter_every=60.0,
)
def dreamer(life: Life) -> Iterator[Event]:
    """A ruled heading `Agent Step 558_096` with a paragraph of values each two minutes."""
    clock = Clock()
    yield Phase.START
    yield "Logdir: logdir/20260203T100004\nReplica: 0 / 1\nJAX devices (1): [CudaDevice(id=0)]\nObservations\n  image            Space(uint8, shape=(64, 64, 3), low=0, high=255)\n"
    yield from clock.wait(life.about(50))
    yield Phase.PREPARE
    yield "Initializing parameters...\nCompiling train function...\n"
    yield from clock.wait(life.about(260))
    yield "Compiling report function...\n"
    yield from clock.wait(life.about(130))
    yield Phase.TRAIN
    step = 0
    for report in range(1, 151):
        yield from clock.wait(life.about(121, 0.02))
        step += round(life.about(2900))
        yield (
            f"{f'[Agent Step {step:_}]':-^59}\nMetrics filtered by: 'score|length|fps|ratio|train/loss/|train/rand'\n"
            f"episode/score {life.random.gauss(report / 12, 1):.1f} / episode/length {life.about(220):.0f} / fps/policy {life.about(24):.1f} / "
            f"fps/train {life.about(2500):.0f} / train/loss/con {life.about(0.02):.2g} / train/loss/dyn {life.about(4 + 20 / report):.2f} / "
            f"train/loss/image {life.about(200 + 2000 / report):.2f} / train/loss/policy {life.random.gauss(0, 0.01):.2g} / train/rand/action 0.21 / replay/replay_ratio 32\n"
        )
        if report % 15 == 0:
            yield Phase.SAVE
            yield "Writing checkpoint: logdir/20260203T100004/ckpt\n"
            yield from clock.wait(life.about(20))
            yield "Saved checkpoint.\n"
            yield Phase.TRAIN
    yield Phase.AFTER
