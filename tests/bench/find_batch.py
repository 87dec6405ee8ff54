"""Tools that look for a batch that fits a budget, each on the network and the data of peers_bench: the number of out-of-memory
errors until training runs, and the gradient of its first step."""

import copy
import ctypes
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path

import torch
from torch.nn import functional

from train_step import Classifier, read_safetensors

STEPS = 3
LEAST = 1e-3  # of the whole gradient's norm: a lower bound for the norm that a parameter's error is divided by


class Training:
    """Training under a budget. The tool calls first_step_is_done()."""

    def __init__(self, options):
        self.wanted = options["batch"]
        folder = Path(options["folder"])
        data = read_safetensors(folder / "data.safetensors")
        self.images, self.labels = data["images"], data["labels"]
        self.options = {**options, "recompute": False}
        self.weights = read_safetensors(folder / "weights.safetensors")
        self.folder = folder
        self.first = None

    def network(self):
        network = Classifier(self.options)
        network.load_state_dict(self.weights)
        return network

    def optimizer(self, network):
        return torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.01)

    def rows(self, first, end):
        return self.images[first:end].clone(), self.labels[first:end].clone()

    def first_step_is_done(self):
        if self.first is None:
            self.first = time.perf_counter()


def lightning(mode):
    import lightning
    from lightning.pytorch.tuner import Tuner
    from torch.utils.data import DataLoader, TensorDataset

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")

    class Module(lightning.LightningModule):
        def __init__(self, training):
            super().__init__()
            self.training_of = training
            self.network = training.network()
            self.batch_size = 2  # the tool's default
            self.is_found = False

        def training_step(self, batch, _):
            return functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            return self.training_of.optimizer(self.network)

        def train_dataloader(self):
            data = TensorDataset(self.training_of.images, self.training_of.labels)
            return DataLoader(data, batch_size=self.batch_size, shuffle=False)

        def on_train_batch_end(self, *_):
            if self.is_found:
                self.training_of.first_step_is_done()

    def prepare(training):
        trainer = lightning.Trainer(accelerator="cpu", max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=training.folder)
        module = Module(training)

        def run():
            Tuner(trainer).scale_batch_size(module, mode=mode)
            module.is_found = True
            trainer.fit(module)
            return module.batch_size, module.batch_size

        return run

    return prepare


def accelerate(training):
    from accelerate.utils import find_executable_batch_size

    base = training.network()

    @find_executable_batch_size(starting_batch_size=training.wanted)
    def train(batch_size):
        network = copy.deepcopy(base)
        optimizer = training.optimizer(network)
        for step in range(STEPS):
            images, labels = training.rows(step * batch_size, (step + 1) * batch_size)
            functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            training.first_step_is_done()
        return batch_size, batch_size

    return train


def composer(training):
    """Composer's device_train_microbatch_size="auto", reimplemented: after an out-of-memory error, the parts of the batch are
    halved, and the batch is started again. Composer's own code needs CUDA errors and another version of torch."""
    network = training.network()
    optimizer = training.optimizer(network)

    def compute(images, labels, part):
        optimizer.zero_grad()
        for rows, own in zip(images.split(part), labels.split(part)):
            loss = functional.cross_entropy(network(rows), own) * (len(rows) / len(images))
            loss.backward()
        optimizer.step()

    def run():
        part = training.wanted
        for step in range(STEPS):
            images, labels = training.rows(step * training.wanted, (step + 1) * training.wanted)
            while True:
                try:
                    compute(images, labels, part)
                    break
                except RuntimeError as error:
                    if "can't allocate memory" not in str(error) or part == 1:
                        raise
                part = max(part // 2, 1)
            training.first_step_is_done()
        return training.wanted, part

    return run


TOOLS = {"Lightning, power": lightning("power"), "Lightning, binsearch": lightning("binsearch"), "accelerate": accelerate, "Composer's rule": composer}


def gradient(training, batch, part):
    """The gradient of the first step in float64, by parameter."""
    network = training.network().double()
    images, labels = training.rows(0, batch)
    for rows, own in zip(images.double().split(part), labels.split(part)):
        (functional.cross_entropy(network(rows), own) * (len(rows) / batch)).backward()
    return [parameter.grad for parameter in network.parameters()]


def worst_error(found, whole):
    all_of_it = torch.stack([one.norm() for one in whole]).norm()
    return max(((a - b).norm() / torch.maximum(b.norm(), LEAST * all_of_it)).item() for a, b in zip(found, whole))


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    training = Training(options)
    budget = ctypes.CDLL(options["library"])
    budget.budget_limit.argtypes = [ctypes.c_int64]
    budget.budget_peak.restype = budget.budget_refusals.restype = ctypes.c_int64
    budget.budget_start()
    budget.budget_limit(options["budget"])
    answer = {"failed": "", "processor": torch.backends.cpu.get_cpu_capability()}
    batch = part = 0
    output = os.dup(1)
    os.dup2(2, 1)  # tools print to it
    try:
        run = TOOLS[options["tool"]](training)
        began = time.perf_counter()
        batch, part = run()
    except RuntimeError as error:
        answer["failed"] = str(error).splitlines()[0]
    answer.update(ooms=budget.budget_refusals(), peak=budget.budget_peak(), batch=batch, part=part)
    budget.budget_limit(-1)
    if batch:
        answer["seconds"] = training.first - began
        answer["error"] = worst_error(gradient(training, batch, part), gradient(training, training.wanted, training.wanted))
    os.dup2(output, 1)
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
