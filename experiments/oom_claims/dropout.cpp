#include <functional>
#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/dry_run.h"
#include "experiments/oom_claims/text.h"
#include "stages/random/dropout.h"

namespace oom_claims {
namespace {

/// Returns how many bytes dropout on a (256, 4096) tensor saves for the backward pass.
std::int64_t kept(const std::function<at::Tensor(const at::Tensor&)>& drop) {
  return owned(recorded([&](stages::MemoryTrace& trace) {
                 const at::Tensor x = torch::empty({256, 4096}, at::kMeta).requires_grad_(true);
                 const at::Tensor y = drop(x * 1);
                 trace.own(y, stages::Owner::kTransient, "result");
               }),
               stages::Owner::kSavedActivation);
}

std::int64_t kept_by_torch(double rate) {
  return kept([&](const at::Tensor& x) { return torch::dropout(x, rate, /*train=*/true); });
}

/// A network on the Meta device that consists only of dropout.
struct Dropping final : torch::nn::Module {
  explicit Dropping(double rate)
      : layer(register_module("layer", std::make_shared<stages::Dropout>(rate))) {
    register_parameter("weight", torch::empty({1}, at::kMeta));
  }
  std::shared_ptr<stages::Dropout> layer;
};

std::int64_t kept_by_names(double rate) {
  return kept([&](const at::Tensor& x) {
    Dropping network(rate);
    const stages::ScopedDropout scope(network, {7, 1}, std::vector<std::int64_t>(256, 1));
    return network.layer->forward(x);
  });
}

}  // namespace

Finding more_dropout_saves_memory() {
  const std::int64_t less = kept_by_torch(0.4), more = kept_by_torch(0.5);
  const std::int64_t ours = kept_by_names(0.4), ours_more = kept_by_names(0.5);
  return {.verdict = more < less ? Verdict::kRight : Verdict::kWrong,
          .measured = "saved for the backward pass if dropout is applied to 4 MiB of values: " +
                      size(less) + " at a rate of 0.4, " + size(more) +
                      " at 0.5; with masks that are recomputed: " + size(ours) + " and " +
                      size(ours_more),
          .instead =
              "the size of a mask does not depend on the rate, and masks need not be saved at all"};
}

}  // namespace oom_claims
