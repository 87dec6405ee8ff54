#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "stages/train/optimizer.h"
#include "tests/support/on_test_device.h"

namespace stages {

/// Where the state is stored, and whether the parameters are updated one by one.
enum class Way { kOnDevice, kOffloaded, kOneByOne, kOffloadedOneByOne };

/// Parameters of many sizes and two types in two groups, one of which gets its first gradient late
/// and one never.
struct ManyParameters {
  ManyParameters(const OptimizerOptions& rule, Way way, StateShard shard = {})
      : way(way), optimizer(groups(rule), offloads(way), std::move(shard)) {
    const auto* sgd = std::get_if<SgdOptions>(&rule);
    if (!sgd || sgd->momentum > 0) momentum = 0.7;
  }

  void run(std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step < to; ++step) {
      const std::optional<at::Tensor> skip =
          step % 4 == 0 ? std::optional(torch::tensor(step == 4 ? 1.0F : 0.0F, here()))
                        : std::nullopt;
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].mutable_grad().reset();
        if (i == 0 || (i == 3 && step < 3)) continue;
        all[i].mutable_grad() = (all[i].detach() * 3 + step).cos();
      }
      optimizer.set_rates(
          {{.learning_rate = 0.1, .momentum = {}}, {.learning_rate = 0.02, .momentum = momentum}});
      if (way == Way::kOneByOne || way == Way::kOffloadedOneByOne) {
        optimizer.begin_steps();
        for (std::size_t i = all.size(); i-- > 0;) {
          if (all[i].grad().defined()) optimizer.step_one(i, skip);
        }
      } else {
        const at::Tensor scratch = optimizer.prepare();
        optimizer.step(skip, {}, scratch);
      }
    }
  }
  void continue_as(const ManyParameters& other) {
    const torch::NoGradGuard no_graph;
    for (std::size_t i = 0; i < all.size(); ++i) all[i].copy_(other.all[i]);
    optimizer.load_state(other.optimizer.state());
  }

  Way way;
  std::optional<double> momentum;  // for the second group
  std::vector<at::Tensor> all;
  Optimizer optimizer;

 private:
  static bool offloads(Way way) { return way == Way::kOffloaded || way == Way::kOffloadedOneByOne; }
  std::vector<ParameterGroup> groups(const OptimizerOptions& rule) {
    const auto add = [&](std::vector<std::int64_t> sizes, at::ScalarType type) {
      const auto count = static_cast<double>(all.size());
      std::int64_t elements = 1;
      for (const std::int64_t size : sizes) elements *= size;
      all.push_back(torch::linspace(-1, 1 + count, elements, here().dtype(type))
                        .view(sizes)
                        .requires_grad_());
      return all.back();
    };
    NamedTensors first, second;
    first.set("never", add({9}, torch::kFloat));
    first.set("matrix", add({12, 17}, torch::kFloat));
    first.set("bias", add({17}, torch::kFloat));
    first.set("late", add({31}, torch::kFloat));
    first.set("double", add({5, 3}, torch::kDouble));
    second.set("image", add({4, 3, 5, 5}, torch::kFloat));
    second.set("scalar", add({}, torch::kFloat));
    // Large enough for quantized state; the last block is shorter.
    second.set("kernel", add({40, 12, 3, 3}, torch::kFloat));
    second.set("wide", add({70, 64}, torch::kFloat));
    const torch::NoGradGuard no_graph;
    for (const std::size_t i : {5, 7})
      all[i].set_data(all[i].contiguous(at::MemoryFormat::ChannelsLast));
    return {{.name = "", .optimizer = rule, .parameters = first},
            {.name = "b", .optimizer = rule, .parameters = second}};
  }
};

}  // namespace stages
