// Counter-based dropout (stages/random/dropout.h), compared with torch's: forward and backward of
// the layer alone.

#include <numeric>

#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/threads.h"
#include "stages/random/dropout.h"
#include "tests/bench/blocks.h"

namespace {

constexpr double kProbability = 0.1;

/// An input as wide as in a CLIP B/32 block.
struct Input {
  std::string name;
  at::Tensor x;
};

using Layer = std::function<at::Tensor(const at::Tensor&)>;

/// Forward and backward; returns the bytes kept for the backward pass in addition to the result.
std::int64_t step(const Layer& layer, const at::Tensor& x) {
  const stages::CountingAllocator counter;
  const at::Tensor y = layer(x);
  const std::int64_t saved = counter.live_bytes() - static_cast<std::int64_t>(y.nbytes());
  torch::autograd::grad({y}, {x}, {torch::ones({}).expand_as(y)});
  return saved;
}

}  // namespace

/// One argument, JSON: {"threads", "batch"}. A block runs the given number of steps of each input
/// through each layer; its answer is {"seconds": {input: {layer: per step}}, "saved_bytes": {input:
/// {layer: n}}}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  stages::use_threads(options.at("threads").get<int>());
  const auto batch = options.at("batch").get<std::int64_t>();
  const at::TensorOptions trained = torch::requires_grad();
  const std::vector<Input> inputs = {
      {"tokens (50 x 768)", torch::randn({batch, 50, 768}, trained)},
      {"attention (12 x 50 x 50)", torch::randn({batch, 12, 50, 50}, trained)}};
  stages::Dropout dropout(kProbability);
  dropout.train();
  std::vector<std::int64_t> samples(static_cast<std::size_t>(batch));
  std::iota(samples.begin(), samples.end(), 0);
  const stages::ScopedDropout scope(dropout, {.seed = 1, .step = 1}, samples);
  const std::vector<std::pair<std::string, Layer>> layers = {
      {"retort", [&](const at::Tensor& x) { return dropout.forward(x); }},
      {"torch",
       [](const at::Tensor& x) { return torch::dropout(x, kProbability, /*train=*/true); }}};
  report({{"ready", true}});
  while (const std::optional<int> block = next_block()) {
    nlohmann::json seconds, saved;
    for (const Input& input : inputs) {
      for (const auto& [name, layer] : layers) {
        std::int64_t bytes = 0;
        const double all = seconds_of([&, &run = layer] {
          for (int i = 0; i < *block; ++i) bytes = step(run, input.x);
        });
        seconds[input.name][name] = all / *block;
        saved[input.name][name] = bytes;
      }
    }
    report({{"seconds", seconds}, {"saved_bytes", saved}});
  }
}
