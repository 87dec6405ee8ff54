#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/stand_in/counts.h"
#include "tests/support/tiny_training.h"

namespace stand_in {

/// A training run on a GPU, with or without CUDA graphs. An epoch has seven steps, of which the
/// last has only 6 samples.
struct Replayed : stages::TinyTraining {
  explicit Replayed(bool replays = true) {
    context.facts.device = "cuda:0";
    train_data = std::make_shared<TinyDataset>(54);
    train_data->options.workers = validation->options.workers = 0;
    options.epochs = 2;
    options.log_every = 1;
    policy.pointer = "/memory";
    policy.cuda_graphs = replays;
  }

  std::int64_t recorded() const {
    return std::ranges::count_if(context.said, [](const std::string& line) {
      return line.find("recorded a CUDA graph") != std::string::npos;
    });
  }
};

using Change = std::function<void(Replayed&)>;

/// The launches, waits and copies of eight steps in the middle of a training run, which `run` runs.
inline Counts of_eight_steps(bool replays, const std::function<void(Replayed&)>& run) {
  const auto of_training = [&](std::int64_t steps) {
    Replayed training(replays);
    training.train_data = std::make_shared<TinyDataset>(steps * 8);
    training.train_data->options.workers = 0;
    training.validation = nullptr;
    training.options.epochs = 1;
    training.options.log_every = 1000;
    const Counts before = counts();
    run(training);
    return counts() - before;
  };
  const Counts shorter = of_training(8);
  return of_training(16) - shorter;
}

}  // namespace stand_in
