// The contrastive loss in tiles (stages/contrastive/contrastive_loss.h), compared with computing
// all similarities at once with autograd: forward and backward of the loss alone.

#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/contrastive/contrastive_loss.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/threads.h"
#include "tests/bench/blocks.h"

namespace {

constexpr std::int64_t kWidth = 512;  // of CLIP B/32's shared embedding space

/// The inputs of the loss, as leaf tensors.
struct Pairs {
  at::Tensor images, texts, logit_scale;
};

using Loss = std::function<at::Tensor(const Pairs&)>;

at::Tensor unit_rows(std::int64_t rows) {
  const at::Tensor x = torch::randn({rows, kWidth});
  return (x / x.norm(2, 1, /*keepdim=*/true)).requires_grad_();
}

at::Tensor at_once(const Pairs& pairs) {
  const at::Tensor similarities = pairs.logit_scale.exp() * pairs.images.mm(pairs.texts.t());
  const at::Tensor own = torch::arange(similarities.size(0));
  return (at::cross_entropy_loss(similarities, own) +
          at::cross_entropy_loss(similarities.t(), own)) /
         2;
}

at::Tensor in_tiles(const Pairs& pairs) {
  return stages::contrastive_loss(pairs.images, pairs.texts, pairs.logit_scale, {},
                                  stages::contrastive_tile(pairs.images));
}

/// One forward and backward pass of the loss alone.
nlohmann::json measured(const Loss& loss, const Pairs& pairs) {
  const stages::CountingAllocator counter;
  double value = 0, of_gradient = 0;
  const double seconds = seconds_of([&] {
    const at::Tensor result = loss(pairs);
    const auto gradients =
        torch::autograd::grad({result}, {pairs.images, pairs.texts, pairs.logit_scale});
    value = result.item<double>();
    of_gradient = gradients[0].norm().item<double>();
  });
  return {{"seconds", seconds},
          {"peak", counter.peak_bytes()},
          {"loss", value},
          {"gradient", of_gradient}};
}

}  // namespace

/// One argument, JSON: {"threads", "pairs": [numbers of pairs]}. A block runs both losses with each
/// number of pairs, the given number of times; its answer is {number: {"tiles" or "at once":
/// [{"seconds", "peak", "loss", "gradient": the norm for the images}]}}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  stages::use_threads(options.at("threads").get<int>());
  const std::vector<std::pair<std::string, Loss>> losses = {{"tiles", in_tiles},
                                                            {"at once", at_once}};
  report({{"ready", true}});
  while (const std::optional<int> block = next_block()) {
    nlohmann::json answer;
    for (const auto& count : options.at("pairs").get<std::vector<std::int64_t>>()) {
      torch::manual_seed(count);
      const Pairs pairs{unit_rows(count), unit_rows(count),
                        torch::tensor(2.6592F).requires_grad_()};
      for (int turn = 0; turn < *block; ++turn) {
        for (const auto& [name, loss] : losses)
          answer[std::to_string(count)][name].push_back(measured(loss, pairs));
      }
    }
    report(answer);
  }
}
