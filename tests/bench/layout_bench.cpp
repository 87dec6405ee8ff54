// Forward and backward passes of small networks in both memory layouts, alternating.

#include <torch/autograd.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include "stages/machine/threads.h"
#include "stages/numerics/numerics.h"
#include "tests/bench/blocks.h"
#include "tests/support/convolutional_networks.h"

namespace {

using Network = torch::nn::SequentialImpl;

/// One network in one memory layout.
struct Subject {
  std::string name;
  stages::Layout layout;
  std::shared_ptr<Network> network;
  at::Tensor images;

  void step() const {
    const at::Tensor loss = forward(*network, images).square().mean();
    torch::autograd::grad({loss}, network->parameters());
  }
};

std::vector<Subject> subjects(std::int64_t batch) {
  struct Shape {
    std::string name;
    std::shared_ptr<Network> (*make)(std::int64_t width, std::int64_t classes);
    std::int64_t width, side;
  };
  std::vector<Subject> result;
  for (const auto& [name, make, width, side] :
       {Shape{"Conv4", conv4, 64, 84}, Shape{"SE-ResNeXt blocks", grouped_bottlenecks, 128, 112},
        Shape{"patch transformer", patch_transformer, 384, 64}}) {
    for (const auto layout : {stages::Layout::kContiguous, stages::Layout::kChannelsLast}) {
      Subject subject{name, layout, make(width, 64), {}};
      stages::set_layout(*subject.network, layout);
      const at::Tensor images =
          torch::randn({batch, 3, side, side}, at::detail::createCPUGenerator(7));
      subject.images =
          stages::in_layout(stages::Batch({{"image", images}}, batch), layout)["image"];
      result.push_back(std::move(subject));
    }
  }
  return result;
}

}  // namespace

/// One argument, JSON: {"threads", "batch"}. A block runs the given number of steps of each network
/// in each layout; its answer is {"seconds": {network: {layout: per step}}}; the first answer is
/// {"rule": {network: layout}}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  stages::use_threads(options.at("threads").get<int>());
  const std::vector<Subject> all = subjects(options.at("batch").get<std::int64_t>());
  nlohmann::json rule;
  for (const Subject& subject : all) {
    const stages::LayerCount layers = stages::count_layers(*subject.network);
    rule[subject.name] = stages::name(stages::choose_layout(layers, at::kCPU, /*reduced=*/false));
  }
  report({{"rule", rule}, {"name", stages::kLayoutRule}});
  while (const std::optional<int> block = next_block()) {
    nlohmann::json seconds;
    for (const Subject& subject : all) {
      const double all_steps = seconds_of([&] {
        for (int i = 0; i < *block; ++i) subject.step();
      });
      seconds[subject.name][std::string(stages::name(subject.layout))] = all_steps / *block;
    }
    report({{"seconds", seconds}});
  }
}
