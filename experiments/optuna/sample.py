"""An example: Optuna chooses the trials of a sweep over the quickstart recipe, through `retort sweep ask-tell`.

    pip install -r experiments/optuna/requirements.txt
    python experiments/optuna/sample.py 20 retort sweep ask-tell quickstart train.epochs=2 --slots 2

The two programs exchange lines of JSON: an "ask" is answered with the settings of a trial, and a "tell" reports its result.
The study is stored in optuna.db under the name of the sweep's folder, so a sweep that was stopped or killed continues with it:

    python experiments/optuna/sample.py 20 retort sweep ask-tell resume multirun/2026-01-31/12-00-00
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
    retort = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    begun = json.loads(retort.stdout.readline() or "{}")
    if "folder" not in begun:
        return retort.wait()
    # The study maximizes, so a value to be minimized, such as a loss, is negated.
    study = optuna.create_study(direction="maximize", study_name=begun["folder"], storage="sqlite:///optuna.db",
                                load_if_exists=True)
    # With the same seed, a continued study would draw its first trials again.
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))

    def answer(line):
        print(json.dumps(line), file=retort.stdin, flush=True)

    asked = {trial.user_attrs["ask"]: (trial.number, trial.user_attrs["settings"])
             for trial in study.get_trials(deepcopy=False) if "settings" in trial.user_attrs}
    for line in retort.stdout:
        said = json.loads(line)
        if "ask" in said and said["ask"] not in asked and len(study.trials) >= trials:
            answer({"stop": True})
        elif "ask" in said:
            if said["ask"] not in asked:
                trial = study.ask()
                asked[said["ask"]] = trial.number, settings(trial)
                trial.set_user_attr("ask", said["ask"])
                trial.set_user_attr("settings", asked[said["ask"]][1])
            answer({"ask": said["ask"], "settings": asked[said["ask"]][1]})
        elif "tell" in said:
            value = -said["value"] if said["value"] is not None and said["best"] == "smallest" else said["value"]
            state = None if value is not None else optuna.trial.TrialState.FAIL
            study.tell(asked[said["tell"]][0], value, state=state, skip_if_finished=True)
        elif "refused" in said or "error" in said:
            sys.exit(line)
    if any(trial.value is not None for trial in study.trials):
        print(f"best: {abs(study.best_value):.4f} with {study.best_params}")
    return retort.wait()


sys.exit(main())
