"""Has Optuna choose the trials of a sweep of the quick start, by `retort sweep ask-tell`:

    pip install -r experiments/optuna/requirements.txt
    python experiments/optuna/sample.py 20 retort sweep ask-tell quickstart train.epochs=2 --slots 2

A line of JSON each way: an "ask" is answered with the settings of a trial, a "tell" says what it came to.
"""

import json
import subprocess
import sys

import optuna


def settings(trial):
    return {
        "train.optimizer.learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
        "train.optimizer.weight_decay": trial.suggest_float("weight_decay", 0.0, 0.1),
        "train.batch_size": trial.suggest_categorical("batch_size", [16, 32, 64]),
    }


def main():
    trials, command = int(sys.argv[1]), sys.argv[2:]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    retort = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(line):
        print(json.dumps(line), file=retort.stdin, flush=True)

    asked = {}
    for line in retort.stdout:
        said = json.loads(line)
        if "ask" in said and len(study.trials) >= trials:
            answer({"stop": True})
        elif "ask" in said:
            trial = asked[said["ask"]] = study.ask()
            answer({"ask": said["ask"], "settings": settings(trial)})
        elif "tell" in said:
            value = said["value"]
            state = None if value is not None else optuna.trial.TrialState.FAIL
            study.tell(asked[said["tell"]], value, state=state)
        elif "refused" in said or "error" in said:
            sys.exit(line)
    if any(trial.value is not None for trial in study.trials):
        print(f"best: {study.best_value:.4f} with {study.best_params}")
    return retort.wait()


sys.exit(main())
