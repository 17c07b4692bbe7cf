"""Reinforcement learning, of robots, games and language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "openrlhf",
    field="reinforcement learning from rewards",
    source="https://github.com/hkust-nlp/simpleRL-reason/issues/24",
    chatter=(
        "(LLMRayActor pid=7712) INFO 02-03 {clock} engine.py:331] Added request? queue 0, waiting 0, gpu cache 0.0%",
    ),
    chatter_every=45.0,
    death="(LLMRayActor pid=7712) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.71 GiB. GPU 4 has a total capacity of 79.15 GiB of which 1.02 GiB is free.\n",
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
    """A centred block each iteration of 14 s, after ten minutes in which shaders and terrain are made."""
    clock = Clock(
        lambda now: (
            f"{now()} [{int(now.passed):,},113ms] [Warning] [omni.physx.plugin] PhysX warning: contact buffer overflow\n"
        ),
        170.0,
    )
    yield Phase.START
    yield "[INFO]: Parsing configuration from: h1_rough_env_cfg:H1RoughEnvCfg\n[2.114s] app ready\n"
    yield from clock.wait(life.about(95))
    yield Phase.PREPARE
    yield "[INFO]: Base environment:\n\tEnvironment device    : cuda:0\n\tPhysics step-size     : 0.005\n[INFO]: Time taken for scene creation : 41.210441 seconds\n"
    yield from clock.wait(life.about(480))
    yield "[INFO]: Completed setting up the environment...\nSetting seed: 42\n"
    yield Phase.TRAIN
    for step in range(900):
        collection, learning = life.about(10.2), life.about(3.9)
        yield from clock.wait(collection + learning)
        reward = life.random.gauss(-4 + 25 * (1 - 0.997**step), 0.8)
        yield (
            f"{'#' * 80}\n{f'Learning iteration {step}/900':^80}\n\n"
            f"{'Computation:':>35} {98304 / (collection + learning):.0f} steps/s (collection: {collection:.3f}s, learning {learning:.3f}s)\n"
            f"{'Value function loss:':>35} {life.about(0.08, 0.3):.4f}\n{'Surrogate loss:':>35} {life.random.gauss(-0.005, 0.003):.4f}\n"
            f"{'Mean action noise std:':>35} {0.3 + 0.7 * 0.998**step:.2f}\n{'Mean reward:':>35} {reward:.2f}\n"
            f"{'Mean episode length:':>35} {min(1000, 20 + step):.2f}\n{'Episode_Reward/track_lin_vel_xy_exp:':>35} {0.01 + step / 3000:.4f}\n"
            f"{'-' * 80}\n{'Total timesteps:':>35} {(step + 1) * 98304}\n{'Iteration time:':>35} {collection + learning:.2f}s\n"
            f"{'Total time:':>35} {clock.passed:.2f}s\n{'ETA:':>35} {(900 - step) * 14.1:.1f}s\n\n"
        )
    yield Phase.AFTER
    yield "[INFO] recording video of policy ...\n"
    yield from clock.wait(life.about(240))


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
